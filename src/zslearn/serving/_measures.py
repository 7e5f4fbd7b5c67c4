"""What a service counts, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_METHODS = frozenset({"GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH"})


class Measures:
    """Counters of one service.

    No label is made of what a request says, so that there are never many.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "zslearn_requests",
            "Requests that were answered.",
            ["route", "method", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "zslearn_request_seconds",
            "Seconds from the first byte to the answer.",
            ["route"],
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30),
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "zslearn_requests_in_flight", "Requests being answered.", registry=self.registry
        )
        self.batch_rows = Histogram(
            "zslearn_batch_rows",
            "Images or feature vectors that were computed together.",
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256),
            registry=self.registry,
        )
        self.images = Counter(
            "zslearn_images", "Images that were predicted.", ["as"], registry=self.registry
        )
        self.classes = Gauge(
            "zslearn_classes",
            "Classes by how they are known.",
            ["known_by"],
            registry=self.registry,
        )

    def count(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request."""
        method = method if method in _METHODS else "other"
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """All of it, in the text format of Prometheus."""
        return generate_latest(self.registry)
