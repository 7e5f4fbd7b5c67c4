"""The service under load, on this machine, beside the bare model.

A model of AwA's shape is served by `zslearn serve` in a process of its own; as many connections as
`--connections` says send one feature vector per request, one after the other. First the speed is
measured, then memory over many requests: resident memory of the server after a warm-up and at the
end. The bare model predicts the same vectors in this process, one at a time and all at once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _common import Report, seconds

import zslearn
from zslearn.synthesis import EXEM

N_SEEN, N_UNSEEN, N_ATTRIBUTES, PER_CLASS = 40, 10, 85, 20


def make_model(n_features: int) -> tuple[Any, np.ndarray]:
    """A fitted model, and vectors to predict."""
    rng = np.random.default_rng(0)
    signatures = rng.random((N_SEEN + N_UNSEEN, N_ATTRIBUTES))
    means = signatures @ rng.standard_normal((N_ATTRIBUTES, n_features))
    y = np.repeat(np.arange(N_SEEN), PER_CLASS)
    X = means[y] + rng.standard_normal((len(y), n_features))
    names = [f"class {i:02d}" for i in range(len(signatures))]
    labels = np.asarray(names)[y]
    model = EXEM().fit(X, labels, signatures=pd.DataFrame(signatures, index=names))
    return model, np.round(X[rng.permutation(len(X))[:256]], 5)


def resident_megabytes(pid: int) -> float:
    """Memory of a process that is in use now."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the server is gone")


async def _connection(port: int, bodies: list[bytes], n_requests: int, taken: list[float]) -> None:
    """Send requests one after the other, and note how long each takes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for i in range(n_requests):
            body = bodies[i % len(bodies)]
            head = (
                f"POST /predict?top=5 HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Type: "
                f"application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            start = time.perf_counter()
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = int(answer.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            taken.append(time.perf_counter() - start)
            if not answer.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(answer.decode())
    finally:
        writer.close()


def load(port: int, bodies: list[bytes], n_requests: int, n_connections: int) -> dict[str, float]:
    """Requests over several connections at once."""
    taken: list[float] = []

    async def run() -> None:
        each = n_requests // n_connections
        await asyncio.gather(
            *(_connection(port, bodies[i:] + bodies[:i], each, taken) for i in range(n_connections))
        )

    start = time.perf_counter()
    asyncio.run(run())
    wall = time.perf_counter() - start
    p50, p99 = np.percentile(taken, [50, 99])
    return {
        "requests": len(taken),
        "p50_ms": 1e3 * float(p50),
        "p99_ms": 1e3 * float(p99),
        "requests_per_s": len(taken) / wall,
    }


def start_server(path: Path) -> tuple[subprocess.Popen[bytes], int]:
    """A server of the model, and its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "zslearn", "serve", str(path), "--port", str(port)]
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return process, port
        except OSError:
            time.sleep(0.1)
    process.kill()
    raise RuntimeError("the server did not start")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000, help="for memory")
    parser.add_argument("--speed-requests", type=int, default=4000, help="for each speed")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--features", type=int, default=1280)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the requests")
    options = parser.parse_args()
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        print('Left out: the service needs FastAPI. Install "zslearn[serve]".')
        return
    if options.quick:
        options.requests, options.speed_requests = 1000, 400
    part = None if options.requests >= 100_000 else f"{options.requests}-requests"
    report = Report("serving", "A served model of AwA's shape, one vector per request", part)
    model, X = make_model(options.features)
    alone, _ = seconds(lambda: [model.predict_top_k(X[i : i + 1], 5) for i in range(64)], 3)
    whole, _ = seconds(lambda: model.predict_top_k(X, 5), 5)
    report.add(what="bare model, one at a time", requests_per_s=64 / alone)
    report.add(what=f"bare model, {len(X)} at once", requests_per_s=len(X) / whole)
    parse, _ = seconds(lambda: [json.loads(json.dumps({"features": [row]})) for row in X.tolist()])
    report.add(what="json of the same vectors, to text and back", requests_per_s=len(X) / parse)
    bodies = [json.dumps({"features": [row]}).encode() for row in X.tolist()]
    with tempfile.TemporaryDirectory() as folder:
        zslearn.save(model, Path(folder, "model.zsl"))
        process, port = start_server(Path(folder, "model.zsl"))
        try:
            load(port, bodies, 400, 4)
            for n in options.connections:
                found = load(port, bodies, options.speed_requests, n)
                report.add(what=f"service, {n} connection{'s' if n > 1 else ''}", **found)
            before, steps = resident_megabytes(process.pid), []
            for _ in range(10):
                load(port, bodies, options.requests // 10, max(options.connections))
                steps.append(round(resident_megabytes(process.pid), 1))
            report.add(
                what="service, memory",
                requests=options.requests,
                megabytes_before=round(before, 1),
                megabytes_over_time=steps,
            )
        finally:
            process.terminate()
            process.wait(30)
    report.save()


if __name__ == "__main__":
    main()
