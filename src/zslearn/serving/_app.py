"""The application: what is answered at which address, and how bodies of requests are read.

A request to /predict: the guard admits it, its body is read within limits, images are decoded, and
a job goes to the batcher, whose thread asks the recognizer. Requests that change the model wait for
one thread, in which they are carried out one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from importlib import resources
from threading import BoundedSemaphore, Lock
from typing import Annotated, Any, Literal, TypeVar, cast

import numpy as np
from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Header, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import from_json, to_json
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect
from starlette.routing import Route

from zslearn._utils._fit_cache import fingerprint
from zslearn._utils._messages import plain
from zslearn._version import __version__
from zslearn.serving._batching import Batcher, Job
from zslearn.serving._guard import Guard, Measures
from zslearn.serving._recognizer import (
    LARGEST,
    MAX_NAME,
    MAX_TEXT,
    MAX_TEXTS,
    Limits,
    Recognizer,
    Refusal,
    Snapshot,
)

# What requests and answers look like; the OpenAPI document is made of these. Lists, which may be
# very long, are checked by the recognizer, which stops at the first fault; see `_document`.
Name = Annotated[str, Field(min_length=1, max_length=4 * MAX_NAME)]
KnownBy = Literal["seen", "described only"]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_extra(cls, content: Any) -> Any:
        """Stop at the first field that there is not; else each would be an error of its own."""
        if isinstance(content, dict) and (extra := content.keys() - cls.model_fields.keys()):
            raise Refusal(422, f"{plain(min(extra), 60)}: Extra inputs are not permitted")
        return content


class Trial(_Body):
    """A class that is tried, and not kept: described by attributes or by text."""

    attributes: Any = Field(
        None, description="Values by the name of the attribute, or all of them in order."
    )
    like: str | None = Field(
        None, description="The class whose values attributes have that are not named."
    )
    text: Any = Field(
        None, description="What is said of the class, where the model's signatures are text."
    )


class NewClass(Trial):
    """A class, described by attributes or by text."""

    name: Name


class Rows(_Body):
    """Feature vectors, one per image, as an array once they are checked."""

    features: Any

    @classmethod
    def most(cls, limits: Limits) -> int:
        """How many there may be."""
        return limits.batch

    @field_validator("features")
    @classmethod
    def _check(cls, given: Any, info: ValidationInfo) -> Any:
        recognizer: Any = info.context
        return recognizer.checked_features(given, cls.most(recognizer.limits))


class Features(Rows):
    """Feature vectors, one per image, and a class to try."""

    trial: Trial | None = Field(None, description="A class that is tried, and not kept.")
    prior: dict[str, float] | None = Field(
        None, description="Odds of classes before the image is seen; 1 for those not named."
    )


class Labelled(Rows):
    """Feature vectors of pictures of one class, and what the pictures are called."""

    images: list[Name] | None = Field(None, max_length=10_000)


class Unlabelled(Rows):
    """Feature vectors of pictures that nobody has labelled."""

    @classmethod
    def most(cls, limits: Limits) -> int:
        """How many there may be."""
        return limits.unlabelled


class RankedClass(BaseModel):
    """A class that an image may be of."""

    model_config = ConfigDict(populate_by_name=True)

    class_: str = Field(alias="class")
    known_by: KnownBy
    added: bool
    examples: int
    score: float | None
    probability: float | None


class Surely(BaseModel):
    """The deepest node of a class hierarchy that is sure enough."""

    node: str
    depth: int
    probability: float | None


class Prediction(BaseModel):
    """What is said of one image."""

    image: str
    ranked: list[RankedClass]
    none_of_these: bool | None
    surely: Surely | None
    explanation: dict[str, object] | None
    features: list[float] | None = None


class Predictions(BaseModel):
    """What is said of the images, in their order."""

    predictions: list[Prediction]
    trial: str | None = Field(description="What the class that is tried is called.")
    same_as: str | None = Field(description="A class that has the same description as that one.")


class KnownClass(BaseModel):
    """A class that can be predicted."""

    name: str
    known_by: KnownBy
    added: bool
    examples: int = Field(description="How many pictures were said to be of it here.")


class NewlyAdded(KnownClass):
    """A class that was just added."""

    same_as: str | None = Field(description="A class that has the same description.")


class Classes(BaseModel):
    """Every class that can be predicted."""

    classes: list[KnownClass]


class DescribedClass(KnownClass):
    """A class with its description."""

    attributes: list[float | None] = Field(description="None for those of a view that it lacks.")
    texts: list[str]


class Attribute(BaseModel):
    """What classes are described by, with its range in the model file."""

    name: str
    low: float
    high: float
    binary: bool = Field(description="Whether it is 0 or 1 for every class of the model file.")


class About(BaseModel):
    """What is served."""

    model: str
    method: str
    version: str
    takes_images: bool
    n_features: int
    described_by: Literal["attributes", "text", "nothing"]
    attributes: list[Attribute]
    learns: bool = Field(description="Whether answers can be corrected (/examples).")
    adapts: bool = Field(description="Whether it learns from pictures without labels (/adapt).")
    samples: list[str] = Field(description="Some training pictures that /pictures shows.")
    shows_pictures: bool
    max_batch: int
    max_added: int
    max_unlabelled: int


class Health(BaseModel):
    """That the service is there."""

    status: Literal["ok"]
    version: str


class Removed(BaseModel):
    """A class or a correction that is gone."""

    removed: str


class KeptExample(BaseModel):
    """A correction: a picture whose class somebody has said."""

    id: str
    class_: str = Field(alias="class")
    image: str


class Examples(BaseModel):
    """Corrections."""

    examples: list[KeptExample]


class Change(BaseModel):
    """The class of a picture before and after."""

    before: str
    after: str


class Adaptation(BaseModel):
    """What is learned from pictures without labels."""

    accepted: bool = Field(description="Whether classes left out of training speak for it.")
    preview: bool
    reason: str | None = Field(description="Why it is not accepted.")
    n_images: int
    score_before: float | None = Field(
        description="Of classes left out of training, without it: the harmonic mean of their "
        "accuracy and that of the others."
    )
    score_after: float | None = Field(description="The same with it.")
    unexplained: float | None = Field(description="Share of the pictures that no class explains.")
    answers: list[Change]


class Adapted(BaseModel):
    """How many pictures without labels the model is adapted to; 0 for none."""

    n_images: int


class Reason(BaseModel):
    """Why a request was refused."""

    status: int
    reason: str


Body = TypeVar("Body", bound=BaseModel)


class _InMemory(MultiPartParser):
    # 0: files stay in memory, however large; the body is limited.
    spool_max_size = 0


def content_type(request: Request) -> str:
    """The kind of a body, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _chunks(request: Request, limits: Limits) -> AsyncGenerator[bytes, None]:
    """The body piece by piece; a Refusal as soon as it is too long."""
    too_long = Refusal(413, f"The body is longer than {limits.body_bytes} bytes.")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and (len(length) > 18 or int(length) > limits.body_bytes):
        raise too_long
    n_bytes = 0
    try:
        async for chunk in request.stream():
            n_bytes += len(chunk)
            if n_bytes > limits.body_bytes:
                raise too_long
            yield chunk
    except ClientDisconnect:
        raise Refusal(400, "The request ended in the middle.") from None


async def read_json(request: Request, kind: type[Body], recognizer: Recognizer) -> Body:
    """A body of JSON as an object; a Refusal that says what is wrong with it."""
    # Pages of other servers can send other kinds without asking first.
    if content_type(request) != "application/json":
        raise Refusal(415, "The body must be JSON, with Content-Type: application/json.")
    chunks, n_bytes, most = [], 0, _json_bytes(recognizer, kind)
    async for chunk in _chunks(request, recognizer.limits):
        n_bytes += len(chunk)
        # What is too long is read to its end, so that the answer is, too.
        if n_bytes <= most:
            chunks.append(chunk)
    if n_bytes > most:
        raise Refusal(413, f"The JSON is longer than {most} bytes, which nothing here needs.")

    def read() -> Body:
        try:
            return kind.model_validate(from_json(b"".join(chunks)), context=recognizer)
        except ValidationError as error:
            raise Refusal(422, _reason(error)) from None
        except (ValueError, RecursionError) as error:
            raise Refusal(422, f"The body is no JSON: {plain(error, 200)}.") from None

    # Megabytes of numbers take a while, in which others shall be answered.
    if n_bytes > 2**16:
        return await to_thread.run_sync(read, limiter=request.app.state.reading)
    return read()


def _json_bytes(recognizer: Recognizer, kind: type[BaseModel]) -> int:
    """Bytes of the longest JSON that can be meant: 32 per number, and names and texts."""
    names = recognizer.attributes.names
    n_rows = kind.most(recognizer.limits) if issubclass(kind, Rows) else 0
    n_numbers = n_rows * recognizer.n_features + len(names)
    # A letter takes up to twelve bytes.
    return 2**20 + 32 * n_numbers + 12 * sum(map(len, names))


def _reason(error: ValidationError) -> str:
    """The first thing that is wrong, in one line."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(plain(part, 60) for part in first["loc"])
    message = plain(first["msg"], 300)
    return f"{where}: {message}" if where else message


async def read_images(request: Request, limits: Limits) -> list[tuple[str, bytes]]:
    """Names and contents of the image files in a form."""
    parser = _InMemory(
        request.headers, _chunks(request, limits), max_files=limits.batch, max_fields=0
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise Refusal(422, f"The form cannot be read: {plain(error.message, 200)}") from None
    except Refusal:
        raise
    # Headers of parts that are no text, and whatever else a parser stumbles over.
    except (ValueError, LookupError, AssertionError) as error:
        raise Refusal(422, f"The form cannot be read: {plain(error, 200)}.") from None
    images = []
    for place, (field, value) in enumerate(form.multi_items()):
        if not isinstance(value, UploadFile) or field != "images":
            raise Refusal(422, "Every part of the form must be a file in the field 'images'.")
        name = plain(value.filename or "", 200) or f"image {place}"
        images.append((name, await value.read()))
        await value.close()
    if not images:
        raise Refusal(422, "The form holds no files in the field 'images'.")
    return images


Top = Annotated[int, Query(ge=1, le=50, description="How many classes per image.")]
Among = Annotated[
    Literal["all", "seen", "described"],
    Query(description="The candidates: all classes, those with training images, or the others."),
]
Within = Annotated[
    list[str],
    Query(description="Only these classes, and those below these taxa of the service's taxonomy."),
]
Explain = Annotated[bool, Query(description="Whether to say why.")]
ShowFeatures = Annotated[bool, Query(description="Whether to give the features of the images.")]
ClassName = Annotated[str, Path(description="The name of a class.")]
OfClass = Annotated[
    str, Query(alias="class", description="The class that the pictures are of.", max_length=800)
]
Preview = Annotated[bool, Query(description="Whether to say what would change, and keep nothing.")]
ExampleId = Annotated[str, Path(description="The id of a correction.")]
PictureName = Annotated[str, Path(description="The name of a training picture.")]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="A name of this change that the client makes up. A repeated request with the "
        "same key gets the first answer, and nothing is changed a second time.",
        min_length=1,
        max_length=200,
        pattern="^[!-~]+$",
    ),
]

_PAGE = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}


def _body(**schemas: Any) -> dict[str, Any]:
    """What a body may be, for the document, by kind: bodies are read by hand."""
    content = {kind.replace("_", "/", 1).replace("_", "-"): s for kind, s in schemas.items()}
    return {
        "requestBody": {
            "required": True,
            "content": {kind: {"schema": schema} for kind, schema in content.items()},
        }
    }


_FILES = {"type": "array", "minItems": 1, "items": {"type": "string", "format": "binary"}}
_FORM = {
    "type": "object",
    "required": ["images"],
    "properties": {"images": _FILES},
    "additionalProperties": False,
}


def _rows_body(kind: type[Rows]) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return _body(application_json=schema, multipart_form_data=_FORM)


_NEW_CLASS = _body(application_json={"$ref": "#/components/schemas/NewClass"})


def _refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What may be refused, for the document; each refusal is JSON with a reason."""
    every = (400, 401, 403, 408, 421, 422, 429, 503, *statuses)
    return {status: {"model": Reason} for status in sorted(every)}


def build_app(recognizer: Recognizer, token: str | None) -> FastAPI:
    """The application of a recognizer; see :func:`create_app`."""
    measures = Measures()
    batcher = Batcher(recognizer, observe=measures.batch_rows.observe)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with recognizer.held():
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
    # Large bodies at the same time: what is made of one takes many times its bytes.
    app.state.reading = CapacityLimiter(2)
    _add_refusals(app)
    reader, changes = _RowReader(recognizer), _Changes()
    _add_predict(app, reader, batcher, measures)
    _add_learning(app, reader, batcher, changes)
    _add_classes(app, recognizer, changes)
    _add_service(app, recognizer, measures)
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


#: Changes whose answers are kept for requests that repeat them.
_MAX_KEYS = 256


#: An answer as JSON, or why there is none. A refusal that was raised would keep in memory, by its
#: traceback, the pictures of its request.
Outcome = bytes | Refusal


def _outcome(work: Callable[[], Any]) -> Outcome:
    """What comes of work that a request asks for."""
    try:
        return to_json(work())
    except Refusal as refusal:
        return Refusal(refusal.status, refusal.reason, refusal.retry_after)


class _Changes:
    """The thread that changes the model; a change with a key is carried out once.

    A change whose request is given up while it waits is never begun. One that has begun is carried
    out, and a repeated request with the same key gets its answer.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        # Key → digest of the request, and its outcome. The event loop and the thread write to it.
        self._kept: dict[str, tuple[str, Future[Outcome]]] = {}
        self._lock = Lock()

    def known(self, key: str | None, asked: str) -> Future[Outcome] | None:
        """The change that an earlier request with the same key asked for; None without one."""
        with self._lock:
            return None if key is None else self._known(key, asked)

    def _known(self, key: str, asked: str) -> Future[Outcome] | None:
        digest, work = self._kept.get(key, (asked, None))
        if digest != asked:
            raise Refusal(422, "Idempotency-Key: another request was sent with this key.")
        return work

    def submit(self, key: str | None, asked: str, change: Callable[[], Any]) -> Future[Outcome]:
        """Have a change made, unless an earlier request with the same key asked for it."""
        if key is None:
            return self._thread.submit(_outcome, change)
        with self._lock:
            if (work := self._known(key, asked)) is not None:
                return work
            work = self._thread.submit(_outcome, change)
            self._kept[key] = asked, work
            if len(self._kept) > _MAX_KEYS:
                # The oldest that has ended: a repeated request must find a change that goes on.
                ended = (known for known, (_, done) in self._kept.items() if done.done())
                self._kept.pop(next(ended, ""), None)

        def forget_failure(done: Future[Outcome]) -> None:
            # Nothing was changed, and another attempt may succeed.
            if done.cancelled() or done.exception() or _is_failure(done.result()):
                with self._lock:
                    if self._kept.get(key, (None, None))[1] is done:
                        del self._kept[key]

        work.add_done_callback(forget_failure)
        return work


def _digest(request: Request, *content: Any) -> str:
    """What a request asks for, with what was read of its body."""
    return fingerprint(request.method, request.url.path, request.url.query, content)


def _is_failure(outcome: Outcome) -> bool:
    """Whether the service, not the request, is the reason of a refusal."""
    return isinstance(outcome, Refusal) and outcome.status >= 500


async def _answer(work: Future[Outcome], status: int = 200) -> Response:
    """The answer of work in another thread, which is given up with its request until it begins."""
    try:
        outcome = await asyncio.wrap_future(work)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if work.cancelled() and task is not None and not task.cancelling():
            # An earlier request with the same key was given up before the change began.
            raise Refusal(503, "The change was not begun in time.", 1) from None
        raise
    if isinstance(outcome, Refusal):
        raise Refusal(outcome.status, outcome.reason, outcome.retry_after)
    return Response(outcome, status, media_type="application/json")


RowsBody = TypeVar("RowsBody", bound=Rows)


class _RowReader:
    """Reads what stands for pictures in requests: forms of images, or feature vectors as JSON."""

    def __init__(self, recognizer: Recognizer) -> None:
        self.recognizer = recognizer
        # Few at a time; a thread that has begun keeps its slot until it ends, whoever has gone.
        self._decoders = ThreadPoolExecutor(4)

    async def read(
        self, request: Request, kind: type[RowsBody]
    ) -> tuple[list[str], Any, RowsBody | None]:
        """Names of pictures, their pixels or features, and the body where it is JSON."""
        if content_type(request) == "multipart/form-data":
            # Refused before the body is read.
            self.recognizer.image_network()
            images = await read_images(request, self.recognizer.limits)
            return [name for name, _ in images], await self._decode(images), None
        body = await read_json(request, kind, self.recognizer)
        return [str(place) for place in range(len(body.features))], body.features, body

    async def _decode(self, images: list[tuple[str, bytes]]) -> Any:
        work = [
            self._decoders.submit(self.recognizer.pixels, data, f"images[{place}] ({name})")
            for place, (name, data) in enumerate(images)
        ]
        try:
            return np.stack(await asyncio.gather(*map(asyncio.wrap_future, work)))
        finally:
            # Where one is refused, nobody waits for those beside it.
            for future in work:
                future.cancel()


def _add_predict(app: FastAPI, reader: _RowReader, batcher: Batcher, measures: Measures) -> None:
    recognizer = reader.recognizer

    def try_class(body: Trial) -> tuple[Snapshot, str | None]:
        values = recognizer.describe(**body.model_dump())[0]
        trial = recognizer.trial(values)
        return trial, trial.same_as(values, trial.trial)

    @app.post(
        "/predict",
        response_model=Predictions,
        responses=_refusals(404, 409, 413, 415),
        openapi_extra=_rows_body(Features),
        summary="Rank the classes of images, or of feature vectors",
    )
    async def predict(
        request: Request,
        top: Top = 5,
        among: Among = "all",
        within: Within = [],  # noqa: B006
        explain: Explain = False,
        features: ShowFeatures = False,
    ) -> Response:
        trial = same_as = prior = None
        names, X, body = await reader.read(request, Features)
        if body is not None:
            prior = body.prior
            if body.trial is not None:
                trial, same_as = await asyncio.to_thread(try_class, body.trial)
        if within or prior:
            # Not in the thread of the batches, where every other request would wait.
            now = trial or recognizer.snapshot
            await asyncio.to_thread(recognizer.check_names, now, among, within, prior)
        job = Job(X, top, among, tuple(within), explain, trial, prior)
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
                "same_as": same_as,
            }
        )


#: Requests to /adapt that are answered or wait; each holds its pictures in memory.
_MAX_ADAPTING = 4


def _add_learning(app: FastAPI, reader: _RowReader, batcher: Batcher, changes: _Changes) -> None:
    recognizer = reader.recognizer
    # A preview takes seconds and memory, and no other change waits for it.
    previews = ThreadPoolExecutor(1)
    places = BoundedSemaphore(_MAX_ADAPTING)

    async def rows_of(request: Request, kind: type[Rows]) -> tuple[list[str], Any, bool]:
        """Names of pictures, what was read of them, and whether that is pixels."""
        names, X, body = await reader.read(request, kind)
        given = getattr(body, "images", None) or names
        if len(given) != len(names):
            raise Refusal(422, f"images: {len(given)} names were given for {len(names)} pictures.")
        return given, X, body is None

    async def features_of(X: Any, are_pixels: bool) -> Any:
        return (await asyncio.wrap_future(batcher.submit(Job(X, top=1))))[1] if are_pixels else X

    @app.get(
        "/examples", response_model=Examples, responses=_refusals(), summary="Every correction"
    )
    async def list_examples() -> Response:
        return _json({"examples": [e.info() for e in recognizer.snapshot.examples.values()]})

    @app.post(
        "/examples",
        status_code=201,
        response_model=Examples,
        responses=_refusals(404, 409, 413, 415, 507),
        openapi_extra=_rows_body(Labelled),
        summary="Correct answers: say which class pictures are of",
    )
    async def add_examples(request: Request, of_class: OfClass, key: Key = None) -> Response:
        names, rows, are_pixels = await rows_of(request, Labelled)
        # Of what was sent: the features of a picture depend, in their last digits, on its batch.
        asked = _digest(request, rows, names)
        work = changes.known(key, asked)
        if work is None:
            X = await features_of(rows, are_pixels)

            def change() -> dict[str, Any]:
                return {"examples": [e.info() for e in recognizer.add_examples(X, of_class, names)]}

            work = changes.submit(key, asked, change)
        return await _answer(work, 201)

    @app.delete(
        "/examples/{id}",
        response_model=Removed,
        responses=_refusals(404, 409, 507),
        summary="Undo a correction",
    )
    async def remove_example(request: Request, id: ExampleId, key: Key = None) -> Response:
        def change() -> dict[str, str]:
            return {"removed": recognizer.remove_example(id).id}

        return await _answer(changes.submit(key, _digest(request), change))

    @app.get(
        "/adapt",
        response_model=Adapted,
        responses=_refusals(),
        summary="How many pictures without labels the model is adapted to",
    )
    async def show_adaptation() -> Response:
        unlabelled = recognizer.snapshot.unlabelled
        return _json({"n_images": 0 if unlabelled is None else len(unlabelled)})

    @app.post(
        "/adapt",
        response_model=Adaptation,
        responses=_refusals(409, 413, 415, 507),
        openapi_extra=_rows_body(Unlabelled),
        summary="Learn from pictures without labels, or say what would change",
    )
    async def adapt(request: Request, preview: Preview = False, key: Key = None) -> Response:
        # Refused before the body is read, which is large.
        if not places.acquire(blocking=False):
            raise Refusal(503, f"{_MAX_ADAPTING} requests to adapt the model are waiting.", 5)
        work: Future[Outcome] | None = None
        pictures: list[Any] = []
        try:
            _, rows, are_pixels = await rows_of(request, Unlabelled)
            asked = _digest(request, rows)
            known = None if preview else changes.known(key, asked)
            if known is None:
                pictures.append(await features_of(rows, are_pixels))
                del rows
                adapted = partial(_adapt, recognizer, pictures, preview)
                if preview:
                    work = previews.submit(_outcome, adapted)
                else:
                    work = changes.submit(key, asked, adapted)
                # Work that has begun holds its place until it ends, even if the request is given
                # up. What never begins waits in a queue, without its pictures.
                work.add_done_callback(lambda _: pictures.clear())
                work.add_done_callback(lambda _: places.release())
        finally:
            if work is None:
                places.release()
        return await _answer(work or cast("Future[Outcome]", known))

    @app.delete(
        "/adapt",
        response_model=Adapted,
        responses=_refusals(404, 409, 507),
        summary="Undo what was learned from pictures without labels",
    )
    async def forget_adaptation(request: Request, key: Key = None) -> Response:
        def change() -> dict[str, int]:
            recognizer.forget_adaptation()
            return {"n_images": 0}

        return await _answer(changes.submit(key, _digest(request), change))


def _adapt(recognizer: Recognizer, pictures: list[Any], preview: bool) -> dict[str, Any]:
    """Adapt the model to pictures, which are handed over."""
    return recognizer.adapt(pictures.pop(), preview=preview)


def _add_classes(app: FastAPI, recognizer: Recognizer, changes: _Changes) -> None:
    @app.get(
        "/classes",
        response_model=Classes,
        responses=_refusals(),
        summary="Every class that can be predicted",
    )
    async def list_classes() -> Response:
        snapshot = recognizer.snapshot
        return _json({"classes": [snapshot.class_info(name) for name in snapshot.label_of]})

    @app.post(
        "/classes",
        status_code=201,
        response_model=NewlyAdded,
        responses=_refusals(404, 409, 413, 415, 507),
        openapi_extra=_NEW_CLASS,
        summary="Add a class by describing it",
    )
    async def add_class(request: Request, key: Key = None) -> Response:
        body = await read_json(request, NewClass, recognizer)

        def change() -> dict[str, Any]:
            added = recognizer.add(body.name, **body.model_dump(exclude={"name"}))
            snapshot = recognizer.snapshot
            same_as = snapshot.same_as(np.asarray(added.values), added.name)
            return {**snapshot.class_info(added.name), "same_as": same_as}

        return await _answer(changes.submit(key, _digest(request, body.model_dump()), change), 201)

    @app.get(
        "/classes/{name:path}",
        response_model=DescribedClass,
        responses=_refusals(404),
        summary="A class with its description",
    )
    async def show_class(name: ClassName) -> Response:
        return _json(recognizer.class_description(name))

    @app.delete(
        "/classes/{name:path}",
        response_model=Removed,
        responses=_refusals(404, 409, 507),
        summary="Remove a class that was added",
    )
    async def remove_class(request: Request, name: ClassName, key: Key = None) -> Response:
        def change() -> dict[str, str]:
            return {"removed": recognizer.remove(name)}

        return await _answer(changes.submit(key, _digest(request), change))


def _add_service(app: FastAPI, recognizer: Recognizer, measures: Measures) -> None:
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
            {"name": name, "low": float(low), "high": float(high), "binary": bool(binary)}
            for name, low, high, binary in zip(
                attributes.names, attributes.lows, attributes.highs, attributes.binary, strict=True
            )
        ]
        if described_by == "attributes"
        else [],
        "learns": recognizer.learns,
        "adapts": recognizer.adapts,
        "samples": recognizer.samples if recognizer.backbone is not None else [],
        "shows_pictures": recognizer.shows_pictures,
        "max_batch": recognizer.limits.batch,
        "max_added": recognizer.limits.added_classes,
        "max_unlabelled": recognizer.limits.unlabelled,
    }

    @app.get("/about", response_model=About, responses=_refusals(), summary="What is served")
    async def show_about() -> Response:
        return _json(about)

    @app.get(
        "/pictures/{name:path}",
        response_class=Response,
        responses={
            **_refusals(404),
            200: {"content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}},
        },
        summary="A training picture, made small",
    )
    async def show_picture(name: PictureName) -> Response:
        picture = await asyncio.to_thread(recognizer.training_picture, name)
        return Response(picture, media_type="image/jpeg")

    @app.get("/health", response_model=Health, responses=_refusals(), summary="Whether it runs")
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
        response = Response((folder / name).read_bytes(), media_type=kind)
        app.router.routes.append(Route(path, response, methods=["GET"]))


def _document(app: FastAPI, recognizer: Recognizer, *, with_token: bool) -> None:
    """Complete the OpenAPI document: bodies, which are read by hand, their sizes, and the token."""
    document = app.openapi()
    parts = document.setdefault("components", {}).setdefault("schemas", {})
    for kind in (Features, Labelled, Unlabelled, NewClass):
        schema = kind.model_json_schema(ref_template="#/components/schemas/{model}")
        parts.update(schema.pop("$defs", {}))
        parts[kind.__name__] = schema
    for name in ("HTTPValidationError", "ValidationError"):
        parts.pop(name, None)
    number = {"type": "number", "minimum": -LARGEST, "maximum": LARGEST}

    def array(items: Any, most: int, least: int) -> dict[str, Any]:
        return {"type": "array", "items": items, "minItems": least, "maxItems": most}

    n_features, names = recognizer.n_features, list(recognizer.attributes.names)
    for kind in (Features, Labelled, Unlabelled):
        rows = array(array(number, n_features, n_features), kind.most(recognizer.limits), 1)
        parts[kind.__name__]["properties"]["features"].update(rows)
    of_names = {"type": "object", "additionalProperties": number}
    if recognizer.encoder is None:
        of_names["propertyNames"] = {"enum": names}
    in_order = array(number, len(names), len(names))
    text = {"type": "string", "minLength": 1, "maxLength": MAX_TEXT}
    for name in ("Trial", "NewClass"):
        fields = parts[name]["properties"]
        fields["attributes"]["anyOf"] = [of_names, in_order, {"type": "null"}]
        fields["text"]["anyOf"] = [text, array(text, MAX_TEXTS, 1), {"type": "null"}]
    if with_token:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        document["paths"]["/health"]["get"]["security"] = []
