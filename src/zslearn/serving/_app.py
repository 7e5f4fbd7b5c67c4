"""The application: what is answered at which address."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import resources
from typing import Annotated, Any, Literal

import numpy as np
from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException

from zslearn._version import __version__
from zslearn.serving import _schemas as schemas
from zslearn.serving._attributes import LARGEST
from zslearn.serving._batching import Batcher, Job
from zslearn.serving._guard import Guard
from zslearn.serving._measures import Measures
from zslearn.serving._reading import content_type, read_images, read_json
from zslearn.serving._recognizer import Recognizer
from zslearn.serving._refusals import Refusal
from zslearn.serving._snapshot import Snapshot
from zslearn.utils import plain

Top = Annotated[int, Query(ge=1, le=50, description="How many classes per image.")]
Among = Annotated[
    Literal["all", "seen", "described"],
    Query(description="The candidates: all classes, those with training images, or the others."),
]
Explain = Annotated[bool, Query(description="Whether to say why.")]
ShowFeatures = Annotated[bool, Query(description="Whether to give the features of the images.")]
ClassName = Annotated[str, Path(description="The name of a class.")]

_PAGE = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/Features"}},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["images"],
                    "properties": {
                        "images": {
                            "type": "array",
                            "minItems": 1,
                            "items": {"type": "string", "format": "binary"},
                        }
                    },
                    "additionalProperties": False,
                }
            },
        },
    }
}
_NEW_CLASS = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/NewClass"}}},
    }
}


def _refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What may be refused, for the document; each refusal is JSON with a reason."""
    every = (400, 401, 403, 408, 421, 422, 503, *statuses)
    return {status: {"model": schemas.Reason} for status in sorted(every)}


def build_app(recognizer: Recognizer, token: str | None) -> FastAPI:
    """The application of a recognizer; see :func:`create_app`."""
    measures = Measures()
    batcher = Batcher(recognizer, observe=measures.batch_rows.observe)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        batcher.close()

    app = FastAPI(
        title="zslearn",
        version=__version__,
        summary="A zero-shot model: predictions, and classes that are added by describing them.",
        # Its pages load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    _add_refusals(app)
    _add_predict(app, recognizer, batcher, measures)
    _add_classes(app, recognizer)
    _add_rest(app, recognizer, measures)
    _add_page(app)
    _document(app, recognizer, with_token=token is not None)
    app.add_middleware(Guard, limits=recognizer.limits, measures=measures, token=token)
    return app


def _add_refusals(app: FastAPI) -> None:
    """Answer the framework's own errors with a reason; the guard does so with all others."""

    @app.exception_handler(HTTPException)
    async def unknown(_: Request, error: HTTPException) -> Response:
        reason = {
            404: "There is nothing at this address.",
            405: "This address takes other methods.",
        }
        status = error.status_code
        body = {"status": status, "reason": reason.get(status, plain(error.detail, 200))}
        return Response(to_json(body), status, error.headers, "application/json")

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(plain(part, 60) for part in first["loc"][1:])
        raise Refusal(422, f"{where}: {plain(first['msg'], 200)}")


def _json(content: Any, status: int = 200) -> Response:
    return Response(to_json(content), status, media_type="application/json")


def _add_predict(
    app: FastAPI, recognizer: Recognizer, batcher: Batcher, measures: Measures
) -> None:
    # Decoding takes memory for all pixels of an image: few at a time.
    decoding = CapacityLimiter(4)

    async def decode(images: list[tuple[str, bytes]]) -> Any:
        work = [
            to_thread.run_sync(
                recognizer.pixels,
                data,
                f"images[{place}] ({name})",
                limiter=decoding,
                abandon_on_cancel=True,
            )
            for place, (name, data) in enumerate(images)
        ]
        return np.stack(await asyncio.gather(*work))

    async def try_class(body: schemas.Trial | None) -> Snapshot | None:
        if body is None:
            return None

        def work() -> Snapshot:
            return recognizer.trial(recognizer.describe(**body.model_dump())[0])

        return await asyncio.to_thread(work)

    @app.post(
        "/predict",
        response_model=schemas.Predictions,
        responses=_refusals(404, 409, 413, 415),
        openapi_extra=_BODY,
        summary="Rank the classes of images, or of feature vectors",
    )
    async def predict(
        request: Request,
        top: Top = 5,
        among: Among = "all",
        explain: Explain = False,
        features: ShowFeatures = False,
    ) -> Response:
        limits, trial = recognizer.limits, None
        X: Any
        if content_type(request) == "multipart/form-data":
            if recognizer.backbone is None:
                recognizer.pixels(b"", "")
            images = await read_images(request, limits)
            names = [name for name, _ in images]
            X = await decode(images)
        else:
            body = await read_json(request, schemas.Features, limits)
            if len(body.features) > limits.batch:
                raise Refusal(413, f"{len(body.features)} rows; at most {limits.batch} at once.")
            X = recognizer.checked_features(body.features)
            names = [str(place) for place in range(len(X))]
            trial = await try_class(body.trial)
        job = Job(X, top=top, among=among, why=explain, trial=trial)
        found, made = await asyncio.wrap_future(batcher.submit(job))
        for answer in found:
            measures.images.labels(answer["ranked"][0]["known_by"]).inc()
        rows = made.tolist() if features else [None] * len(found)
        return _json(
            {
                "predictions": [
                    {"image": name, **answer, "features": row}
                    for name, answer, row in zip(names, found, rows, strict=True)
                ],
                "trial": None if trial is None else trial.trial,
            }
        )


def _add_classes(app: FastAPI, recognizer: Recognizer) -> None:
    def known(snapshot: Snapshot, name: str) -> dict[str, Any]:
        return {
            "name": name,
            "known_by": "seen" if name in snapshot.seen else "described only",
            "added": name in snapshot.added,
        }

    @app.get(
        "/classes",
        response_model=schemas.Classes,
        responses=_refusals(),
        summary="Every class that can be predicted",
    )
    async def list_classes() -> Response:
        snapshot = recognizer.snapshot
        return _json({"classes": [known(snapshot, name) for name in snapshot.label_of]})

    @app.post(
        "/classes",
        status_code=201,
        response_model=schemas.KnownClass,
        responses=_refusals(404, 409, 413, 415, 507),
        openapi_extra=_NEW_CLASS,
        summary="Add a class by describing it",
    )
    async def add_class(request: Request) -> Response:
        body = await read_json(request, schemas.NewClass, recognizer.limits)
        said = body.model_dump(exclude={"name"})
        # Shielded: a class that is half way to the disk is not given up.
        added = await asyncio.shield(asyncio.to_thread(recognizer.add, body.name, **said))
        return _json(known(recognizer.snapshot, added.name), 201)

    @app.get(
        "/classes/{name:path}",
        response_model=schemas.DescribedClass,
        responses=_refusals(404),
        summary="A class with its description",
    )
    async def show_class(name: ClassName) -> Response:
        values = recognizer.values_of(name).tolist()
        texts = recognizer.texts_of(name)
        return _json({**known(recognizer.snapshot, name), "attributes": values, "texts": texts})

    @app.delete(
        "/classes/{name:path}",
        response_model=schemas.Removed,
        responses=_refusals(404, 409, 507),
        summary="Remove a class that was added",
    )
    async def remove_class(name: ClassName) -> Response:
        await asyncio.shield(asyncio.to_thread(recognizer.remove, name))
        return _json({"removed": name})


def _add_rest(app: FastAPI, recognizer: Recognizer, measures: Measures) -> None:
    attributes = recognizer.attributes
    described_by = "attributes" if recognizer.encoder is None else "text"
    if recognizer.file.model.signature_table_.indicators:
        described_by = "nothing"
    about = {
        "model": plain(recognizer.path.name, 200),
        "method": plain(
            recognizer.file.about.get("method") or recognizer.file.header["method"], 200
        ),
        "version": __version__,
        "takes_images": recognizer.backbone is not None,
        "n_features": recognizer.n_features,
        "described_by": described_by,
        # Dimensions of a sentence vector say nothing to a person.
        "attributes": [
            {"name": name, "low": float(low), "high": float(high)}
            for name, low, high in zip(
                attributes.names, attributes.lows, attributes.highs, strict=True
            )
        ]
        if described_by == "attributes"
        else [],
        "max_batch": recognizer.limits.batch,
        "max_added": recognizer.limits.added_classes,
    }

    @app.get(
        "/about", response_model=schemas.About, responses=_refusals(), summary="What is served"
    )
    async def show_about() -> Response:
        return _json(about)

    @app.get(
        "/health", response_model=schemas.Health, responses=_refusals(), summary="Whether it runs"
    )
    async def health() -> Response:
        return _json({"status": "ok", "version": __version__})

    @app.get(
        "/metrics",
        response_class=Response,
        responses={**_refusals(), 200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
        summary="Counters for Prometheus",
    )
    async def metrics() -> Response:
        snapshot = recognizer.snapshot
        n_seen, n_added = len(snapshot.seen), len(snapshot.added)
        measures.classes.labels("seen").set(n_seen)
        measures.classes.labels("added").set(n_added)
        measures.classes.labels("described only").set(len(snapshot.label_of) - n_seen - n_added)
        return Response(measures.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_page(app: FastAPI) -> None:
    """The page for people, from the files of the package."""
    folder = resources.files("zslearn.serving") / "page"
    for path, (name, kind) in _PAGE.items():
        endpoint = _showing((folder / name).read_bytes(), kind)
        app.add_api_route(path, endpoint, include_in_schema=False)


def _showing(content: bytes, kind: str) -> Any:
    async def show() -> Response:
        return Response(content, media_type=kind)

    return show


def _document(app: FastAPI, recognizer: Recognizer, *, with_token: bool) -> None:
    """Complete the OpenAPI document: bodies, which are read by hand, their sizes, and the token."""
    document = app.openapi()
    parts = document.setdefault("components", {}).setdefault("schemas", {})
    for kind in (schemas.Features, schemas.NewClass):
        schema = kind.model_json_schema(ref_template="#/components/schemas/{model}")
        parts.update(schema.pop("$defs", {}))
        parts[kind.__name__] = schema
    for name in ("HTTPValidationError", "ValidationError"):
        parts.pop(name, None)
    number = {"type": "number", "minimum": -LARGEST, "maximum": LARGEST}
    rows, n_features = parts["Features"]["properties"]["features"], recognizer.n_features
    rows["maxItems"] = recognizer.limits.batch
    rows["items"].update(minItems=n_features, maxItems=n_features, items=number)
    names = list(recognizer.attributes.names)
    of_names = {"type": "object", "additionalProperties": number}
    if recognizer.encoder is None:
        of_names["propertyNames"] = {"enum": names}
    in_order = {"type": "array", "items": number, "minItems": len(names), "maxItems": len(names)}
    for name in ("Trial", "NewClass"):
        parts[name]["properties"]["attributes"]["anyOf"] = [of_names, in_order, {"type": "null"}]
    if with_token:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        document["paths"]["/health"]["get"]["security"] = []
