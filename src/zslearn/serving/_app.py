"""The HTTP interface: schemas of requests and responses, and the routes.

Features, or rows of a table, are sent as JSON, images and table files as multipart forms to
addresses of their own (``/predict/images``, ``/predict/table``). Files are decoded in two threads,
predictions computed in the batcher's thread, and changes of the model made one after the other in
the writer's thread.
"""

# FastAPI reads annotations in `api_router` that depend on the model.
# mypy: disable-error-code="valid-type, attr-defined"

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from importlib import resources
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Depends, File, Header, Path, Query, Request, Response, UploadFile
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)
from starlette.routing import Route

from zslearn._utils._fit_cache import fingerprint
from zslearn._utils._messages import plain
from zslearn._version import __version__
from zslearn.serving._batching import Batcher, Job, is_pixels
from zslearn.serving._recognizer import LARGEST, MAX_NAME, Recognizer, Refusal, rows_of

# Request bodies; `api_router` adds those that depend on the model.

#: A finite number; strict, since JSON's true is not a number here.
Number = Annotated[float, Field(strict=True, ge=-LARGEST, le=LARGEST)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
Text = Annotated[str, Field(min_length=1, max_length=2000)]
#: Texts per class.
MAX_TEXTS = 100
#: A value in a row of a table; None if it is missing.
Cell = Number | Annotated[str, Field(max_length=1000)] | Annotated[bool, Field(strict=True)] | None


def length(least: int, most: int) -> Any:
    """Limit the length of a list, and stop validating it at the first error."""
    return Field(min_length=least, max_length=most, fail_fast=True)


def max_entries(size: int) -> BeforeValidator:
    """Limit the size of a mapping before each entry can become an error of its own."""

    def check(given: Any) -> Any:
        if isinstance(given, dict) and len(given) > size:
            raise ValueError(f"{len(given)} entries; at most {size} are allowed")
        return given

    return BeforeValidator(check)


class Body(BaseModel):
    """A body that forbids unknown fields and names only the first of them."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _forbid_unknown(cls, content: Any) -> Any:
        known = {field.alias or name for name, field in cls.model_fields.items()}
        if isinstance(content, dict) and (extra := content.keys() - known):
            raise ValueError(f"there is no field {plain(min(extra), 60)!r}")
        return content


# Responses.

KnownBy = Literal["seen", "described only"]


class KnownClass(BaseModel):
    """A class that can be predicted."""

    name: str
    known_by: KnownBy
    added: bool = Field(description="Whether it was added through the service.")
    examples: int = Field(description="Number of corrections that name this class.")


class RankedClass(BaseModel):
    """A candidate for an image, with its score."""

    class_: str = Field(alias="class")
    known_by: KnownBy
    added: bool
    examples: int
    score: float | None
    probability: float | None


class Surely(BaseModel):
    """The deepest node of the class hierarchy that reaches the model's confidence."""

    node: str
    depth: int
    probability: float | None


class Prediction(BaseModel):
    """The prediction for one image."""

    image: str
    ranked: list[RankedClass]
    none_of_these: bool | None
    surely: Surely | None
    explanation: dict[str, Any] | None
    features: list[float] | None = None
    row: dict[str, Cell] | None = Field(None, description="The row of the table.")


class Predictions(BaseModel):
    """Predictions in the order of the images."""

    predictions: list[Prediction]
    trial: str | None = Field(None, description="The name of the trial class in `ranked`.")
    same_as: str | None = Field(None, description="A class with the same description as the trial.")


class NewlyAdded(KnownClass):
    """A class that was just added."""

    same_as: str | None = Field(description="Another class with the same description.")


class Classes(BaseModel):
    """Every class that can be predicted."""

    classes: list[KnownClass]


class DescribedClass(KnownClass):
    """A class with its description."""

    attributes: list[float | None] = Field(description="None for the attributes of a missing view.")
    texts: list[str]


class Attribute(BaseModel):
    """An attribute that describes classes, with its range in the model file."""

    name: str
    low: float
    high: float
    binary: bool = Field(description="Whether it is 0 or 1 for every class in the model file.")


class Column(BaseModel):
    """A column of the table that the model was fitted on."""

    name: str
    kind: Literal["number", "yes/no", "category", "date"]
    levels: list[str] = Field(description="Frequent values of a category, in lower case.")
    typical: float | None = Field(description="What replaces a missing number.")


class About(BaseModel):
    """The model and the service."""

    model: str
    method: str
    version: str
    takes_images: bool
    n_features: int
    columns: list[Column] | None = Field(
        description="Columns of rows in requests, in order; None if they are feature vectors."
    )
    described_by: Literal["attributes", "text", "nothing"]
    attributes: list[Attribute]
    example_text: str | None = Field(description="The text of a class, if text describes them.")
    learns: bool = Field(description="Whether predictions can be corrected (/examples).")
    adapts: bool = Field(description="Whether the model adapts to unlabelled images (/adapt).")
    samples: list[str] = Field(description="Some training images, for /pictures.")
    shows_pictures: bool
    max_batch: int
    max_added: int
    max_unlabelled: int


class Health(BaseModel):
    """The service is running."""

    status: Literal["ok"] = "ok"
    version: str = __version__


class Removed(BaseModel):
    """The class or correction that was removed."""

    removed: str


class KeptExample(BaseModel):
    """A correction: an image labelled by a user."""

    id: str
    class_: str = Field(alias="class")
    image: str


class Examples(BaseModel):
    """Corrections."""

    examples: list[KeptExample]


class Change(BaseModel):
    """The predicted class of an image before and after a change."""

    before: str
    after: str


class Adaptation(BaseModel):
    """The effect of adapting to unlabelled images."""

    accepted: bool = Field(description="Whether held-out classes gain from it.")
    preview: bool
    reason: str | None = Field(description="Why the adaptation is rejected.")
    n_images: int
    score_before: float | None = Field(
        description="Harmonic mean of the accuracies on held-out and on other classes, before."
    )
    score_after: float | None = Field(description="The same after adapting.")
    background_share: float | None = Field(description="Share of images that fit no class.")
    answers: list[Change]


class Adapted(BaseModel):
    """The number of unlabelled images the model is adapted to, or 0."""

    n_images: int


class Suggestion(BaseModel):
    """A sample to label next."""

    sample: int = Field(description="Its place in the request.")
    class_: str = Field(alias="class", description="The predicted class.")
    probability: float
    gain: float = Field(description="Expected gain of accuracy over the other samples.")


class ClassAdvice(BaseModel):
    """What would help a class."""

    class_: str = Field(alias="class")
    gain: float = Field(description="Expected gain of accuracy by the label of one image.")
    advice: Literal["image", "description", "none"]
    same_attributes: str | None = Field(
        description="A class that its attributes cannot tell it from."
    )


class Suggestions(BaseModel):
    """Samples to label next, and the classes; the most valuable ones first."""

    suggestions: list[Suggestion]
    classes: list[ClassAdvice]


class Reason(BaseModel):
    """Why a request was refused."""

    status: int
    reason: str


# Parameters.


class Ranking(BaseModel):
    """How to rank the classes of images."""

    top: int = Field(5, ge=1, le=50, description="Number of classes per image.")
    among: Literal["all", "seen", "described"] = Field(
        "all", description="Candidates: all classes, those with training images, or the others."
    )
    within: list[str] = Field(
        [], description="Restrict candidates to these classes or taxa (see --taxonomy)."
    )
    explain: bool = Field(False, description="Whether to explain the predictions.")
    features: bool = Field(False, description="Whether to return the features, or rows, too.")


Options = Annotated[Ranking, Query()]
ClassName = Annotated[str, Path(description="The name of a class.")]
OfClass = Annotated[str, Query(alias="class", description="The class of the images.")]
Preview = Annotated[bool, Query(description="Whether to report the changes without keeping them.")]
Suggested = Annotated[int, Query(ge=1, le=1000, description="Number of samples to suggest.")]
ExampleId = Annotated[str, Path(description="The id of a correction.")]
TableFile = Annotated[UploadFile, File(description="A CSV, TSV, Excel or Parquet file.")]
PictureName = Annotated[str, Path(description="The name of a training image.")]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="A unique name for this change, chosen by the client. Repeated requests with "
        "the same key get the first answer, and the change is made once.",
        min_length=1,
        max_length=200,
        pattern="^[!-~]+$",
    ),
]

#: Number of idempotency keys that are remembered.
_MAX_KEYS = 256


class Asked:
    """A request for a change, with its idempotency key."""

    def __init__(self, request: Request, key: Key = None) -> None:
        self.key = key
        self._route = request.method, request.url.path, request.url.query

    def digest(self, *content: Any) -> str:
        """A digest of the request and the content of its body; empty without a key."""
        return "" if self.key is None else fingerprint(*self._route, content)


#: FastAPI makes it from the parameters of its constructor.
ToChange = Annotated[Asked, Depends()]


class Writer:
    """The thread that changes the model, once per idempotency key."""

    # If a request ends early, its change is cancelled unless it has begun. A change that has begun
    # is completed, and a repeated request with its key gets the outcome.

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        # Key → digest of the request, and its outcome. Used by the event loop only.
        self._recent: dict[str, tuple[str, Future[Any]]] = {}

    def known(self, asked: Asked, digest: str) -> Future[Any] | None:
        """The change requested earlier with the same key."""
        recent, work = self._recent.get(asked.key or "", (digest, None))
        # After a failure of the service, such as a full disk, another attempt may succeed.
        if work is None or work.cancelled() or (work.done() and _has_failed(work.result())):
            return None
        if recent != digest:
            raise Refusal(422, "Idempotency-Key: this key was used for another request.")
        return work

    async def make(self, asked: Asked, change: Callable[[], Any], digest: str | None = None) -> Any:
        """Make a change, unless its key is known, and return its outcome."""
        digest = asked.digest() if digest is None else digest
        if (work := self.known(asked, digest)) is None:
            work = self._thread.submit(_outcome, change)
            if asked.key is not None:
                self._recent[asked.key] = digest, work
                finished = (old for old, (_, known) in self._recent.items() if known.done())
                if len(self._recent) > _MAX_KEYS:
                    self._recent.pop(next(finished, ""), None)
        return await self.outcome(work)

    async def outcome(self, work: Future[Any]) -> Any:
        """Wait for a change, which is cancelled with the request unless it has begun."""
        try:
            outcome = await asyncio.wrap_future(work)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if work.cancelled() and task is not None and not task.cancelling():
                # An earlier request with the same key ended before the change began.
                raise Refusal(503, "The change was not begun in time.", 1) from None
            raise
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def _outcome(change: Callable[[], Any]) -> Any:
    """The result of a change, or its error without the traceback, which keeps images alive."""
    try:
        return change()
    except Exception as error:
        return error.with_traceback(None)


def _has_failed(outcome: Any) -> bool:
    """Whether a change failed through the service rather than the request."""
    status = outcome.status if isinstance(outcome, Refusal) else 500
    return isinstance(outcome, Exception) and status >= 500


def page_routes() -> list[Route]:
    """The routes of the web page."""
    folder = resources.files("zslearn.serving") / "page"
    return [
        Route(path, Response((folder / name).read_bytes(), media_type=kind), methods=["GET"])
        for path, name, kind in (
            ("/", "index.html", "text/html"),
            ("/page.css", "page.css", "text/css"),
            ("/page.js", "page.js", "text/javascript"),
        )
    ]


def api_router(recognizer: Recognizer, batcher: Batcher, metrics: Any) -> APIRouter:
    """The routes of the interface for programs."""
    router, limits, writer = APIRouter(), recognizer.limits, Writer()
    # Previews take seconds, and changes need not wait for them.
    previews = ThreadPoolExecutor(1)
    # Two threads limit the memory to two of the largest images, also after requests have ended.
    decoders = ThreadPoolExecutor(2)

    # Bodies that depend on the model.

    n_features, names = recognizer.n_features, list(recognizer.attributes)
    vector = Annotated[list[Number], length(n_features, n_features)]
    given, most = "features", limits.batch
    Sample: Any = vector
    as_samples = AfterValidator(lambda rows: np.asarray(rows, dtype=np.float64))
    what = "feature vectors"
    if recognizer.columns is not None:
        # A row may have columns that the model ignores.
        n_cells = 10 * len(recognizer.columns) + 100
        given, most, what = "rows", limits.rows, "rows of a table, by column"
        Sample = Annotated[dict[Name, Cell], max_entries(n_cells)]
        as_samples = AfterValidator(recognizer.table)
    Rows = Annotated[list[Sample], length(1, most), as_samples]
    UnlabelledRows = Annotated[list[Sample], length(1, limits.unlabelled), as_samples]
    Images = Annotated[list[UploadFile], File(min_length=1, max_length=limits.batch)]
    UnlabelledImages = Annotated[list[UploadFile], File(min_length=1, max_length=limits.unlabelled)]
    enum = {"enum": names} if recognizer.encoder is None else None
    ByName = dict[Annotated[str, Field(json_schema_extra=enum)], Number]
    InOrder = Annotated[list[Number], length(len(names), len(names))]
    n_classes = len(recognizer.state.label_of) + limits.added_classes
    Odds = Annotated[float, Field(strict=True, gt=0, le=LARGEST)]

    class Trial(Body):
        """A class to try without keeping it, described by attributes or by text."""

        attributes: Annotated[ByName, max_entries(len(names))] | InOrder | None = Field(
            None, description="Values by attribute name, or all of them in order."
        )
        like: str | None = Field(None, description="The class to copy unnamed attributes from.")
        text: Text | Annotated[list[Text], length(1, MAX_TEXTS)] | None = Field(
            None, description="Texts about the class, if the model encodes text."
        )

    class NewClass(Trial):
        """A new class, described by attributes or by text."""

        name: Name

    class Features(Body):
        __doc__ = f"Samples ({what}), and optionally a class to try."
        samples: Annotated[Rows, Field(alias=given)]
        trial: Trial | None = Field(None, description="A class to try without keeping it.")
        prior: Annotated[dict[str, Odds], max_entries(n_classes)] | None = Field(
            None, description="Prior odds of classes, 1 for classes not named."
        )

    class Labelled(Body):
        __doc__ = f"Samples of one class ({what}), and their names."
        samples: Annotated[Rows, Field(alias=given)]
        images: Annotated[list[Name], length(1, most)] | None = None

    class Unlabelled(Body):
        __doc__ = f"Unlabelled samples ({what})."
        samples: Annotated[UnlabelledRows, Field(alias=given)]

    # Images.

    async def decoded(images: list[UploadFile]) -> tuple[list[str], Any]:
        """Decode images into their names and the input of the network."""
        recognizer.refuse_images()
        names = [plain(f.filename or "", 200) or f"image {i}" for i, f in enumerate(images)]
        work = [
            decoders.submit(recognizer.pixels, await file.read(), f"images[{i}] ({names[i]})")
            for i, file in enumerate(images)
        ]
        try:
            return names, np.stack(await asyncio.gather(*map(asyncio.wrap_future, work)))
        finally:
            # If one image is refused, the others need not be decoded.
            for future in work:
                future.cancel()

    # Predictions.

    async def predictions(
        names: list[str], X: Any, options: Ranking, state: Any = None, prior: Any = None
    ) -> dict[str, Any]:
        job = Job(X, state or recognizer.state, options.top, explain=options.explain)
        job.candidates = recognizer.candidates(job.state, options.among, options.within)
        job.odds = recognizer.odds(job.state, prior)
        answers, rows = await batcher.compute(job)
        for answer in answers:
            metrics.images.labels(answer["ranked"][0]["known_by"]).inc()
        shown: list[Any] = [None] * len(answers)
        key = "features" if recognizer.columns is None else "row"
        if options.features:
            shown = rows.tolist() if recognizer.columns is None else rows_of(rows)
        triples = zip(names, answers, shown, strict=True)
        return {"predictions": [{"image": n, **a, key: row} for n, a, row in triples]}

    @router.post("/predict", response_model=Predictions)
    async def predict(body: Features, options: Options) -> dict[str, Any]:
        """Rank the classes of feature vectors, or of rows of a table."""
        state, trial = recognizer.state, {}
        if body.trial is not None:
            state = await asyncio.to_thread(recognizer.trial, body.trial.model_dump())
            trial = {"trial": state.trial, "same_as": state.same_as(str(state.trial))}
        names = [str(place) for place in range(len(body.samples))]
        return trial | await predictions(names, body.samples, options, state, body.prior)

    @router.post("/predict/images", response_model=Predictions)
    async def predict_images(images: Images, options: Options) -> dict[str, Any]:
        """Rank the classes of images."""
        return await predictions(*await decoded(images), options)

    @router.post("/predict/table", response_model=Predictions)
    async def predict_table(table: TableFile, options: Options) -> dict[str, Any]:
        """Rank the classes of the rows of a table file."""
        if recognizer.columns is None:
            raise Refusal(415, "This model was not fitted on a table, so it takes no table files.")
        read = partial(recognizer.read_table, await table.read(), table.filename or "table.csv")
        found = await asyncio.wrap_future(decoders.submit(read))
        return await predictions(list(found.names), found.X, options)

    # Corrections and unlabelled images.

    async def learn(
        asked: Asked,
        rows: Any,
        change: Callable[[Any], Any],
        *,
        names: Sequence[str] = (),
        preview: bool = False,
    ) -> Any:
        """Compute the features of rows, unless the change is known, and make the change."""
        # The digest is taken of the pixels: features depend, in their last digits, on the batch.
        digest = "" if preview else asked.digest(rows, names)
        known = None if preview else writer.known(asked, digest)
        if known is not None:
            return await writer.outcome(known)
        X = rows
        if is_pixels(rows):
            _, X = await batcher.compute(Job(rows, recognizer.state))
        if preview:
            return await writer.outcome(previews.submit(_outcome, partial(change, X)))
        return await writer.make(asked, partial(change, X), digest)

    @router.get("/examples", response_model=Examples)
    async def list_examples() -> dict[str, Any]:
        """List all corrections."""
        return {"examples": [e.info() for e in recognizer.state.examples.values()]}

    async def add_examples(asked: Asked, of_class: str, names: list[str], rows: Any) -> Any:
        def change(X: Any) -> dict[str, Any]:
            return {"examples": [e.info() for e in recognizer.add_examples(X, of_class, names)]}

        return await learn(asked, rows, change, names=names)

    @router.post("/examples", status_code=201, response_model=Examples)
    async def correct(body: Labelled, of_class: OfClass, asked: ToChange) -> Any:
        """Correct predictions: give the class of feature vectors, or of rows of a table."""
        n_rows = len(body.samples)
        names = [str(place) for place in range(n_rows)] if body.images is None else body.images
        if len(names) != n_rows:
            raise Refusal(422, f"images: {len(names)} names were given for {n_rows} images.")
        return await add_examples(asked, of_class, names, body.samples)

    @router.post("/examples/images", status_code=201, response_model=Examples)
    async def correct_images(images: Images, of_class: OfClass, asked: ToChange) -> Any:
        """Correct predictions: give the class of images."""
        return await add_examples(asked, of_class, *await decoded(images))

    @router.delete("/examples/{id}", response_model=Removed)
    async def remove_example(id: ExampleId, asked: ToChange) -> Any:
        """Undo a correction."""
        return await writer.make(asked, lambda: {"removed": recognizer.remove_example(id)})

    @router.get("/adapt", response_model=Adapted)
    async def show_adaptation() -> dict[str, int]:
        """Return the number of unlabelled images the model is adapted to."""
        return {"n_images": recognizer.state.n_unlabelled}

    @router.post("/adapt", response_model=Adaptation)
    async def adapt(body: Unlabelled, asked: ToChange, preview: Preview = False) -> Any:
        """Adapt the model to unlabelled feature vectors, or rows of a table."""
        change = partial(recognizer.adapt, preview=preview)
        return await learn(asked, body.samples, change, preview=preview)

    @router.post("/adapt/images", response_model=Adaptation)
    async def adapt_images(
        images: UnlabelledImages, asked: ToChange, preview: Preview = False
    ) -> Any:
        """Adapt the model to unlabelled images."""
        change = partial(recognizer.adapt, preview=preview)
        _, pixels = await decoded(images)
        return await learn(asked, pixels, change, preview=preview)

    @router.delete("/adapt", response_model=Adapted)
    async def undo_adaptation(asked: ToChange) -> Any:
        """Undo the adaptation to unlabelled images."""
        await writer.make(asked, recognizer.undo_adaptation)
        return {"n_images": 0}

    @router.post("/suggest", response_model=Suggestions)
    async def suggest(body: Unlabelled, n: Suggested = 10) -> Any:
        """Suggest which feature vectors, or rows of a table, to label next."""
        work = partial(_outcome, partial(recognizer.suggest, body.samples, n))
        return await writer.outcome(previews.submit(work))

    # Classes.

    @router.get("/classes", response_model=Classes)
    async def list_classes() -> dict[str, Any]:
        """List all classes that can be predicted."""
        state = recognizer.state
        return {"classes": [state.class_info(name) for name in state.label_of]}

    @router.post("/classes", status_code=201, response_model=NewlyAdded)
    async def add_class(body: NewClass, asked: ToChange) -> Any:
        """Add a class from its description."""

        def change() -> dict[str, Any]:
            name = recognizer.add(**body.model_dump())
            state = recognizer.state
            return {**state.class_info(name), "same_as": state.same_as(name)}

        return await writer.make(asked, change, asked.digest(body.model_dump()))

    @router.get("/classes/{name:path}", response_model=DescribedClass)
    async def show_class(name: ClassName) -> dict[str, Any]:
        """Return a class with its description."""
        return recognizer.state.class_description(name)

    @router.delete("/classes/{name:path}", response_model=Removed)
    async def remove_class(name: ClassName, asked: ToChange) -> Any:
        """Remove a class that was added."""
        return await writer.make(asked, lambda: {"removed": recognizer.remove(name)})

    # The service.

    about = _about(recognizer)

    @router.get("/about")
    async def show_about() -> About:
        """Describe the model and the service."""
        return about

    @router.get(
        "/pictures/{name:path}",
        response_class=Response,
        responses={
            200: {"content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}}
        },
    )
    async def show_picture(name: PictureName) -> Response:
        """Return a thumbnail of a training image."""
        picture = asyncio.wrap_future(decoders.submit(recognizer.training_picture, name))
        return Response(await picture, media_type="image/jpeg")

    @router.get("/health")
    async def health() -> Health:
        """Report that the service is running."""
        return Health()

    @router.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def show_metrics() -> Response:
        """Return metrics for Prometheus."""
        state = recognizer.state
        n_seen, n_added = len(state.seen), len(state.added)
        metrics.classes.labels("seen").set(n_seen)
        metrics.classes.labels("added").set(n_added)
        metrics.classes.labels("described only").set(len(state.label_of) - n_seen - n_added)
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return router


def _columns(recognizer: Recognizer) -> list[Column] | None:
    """Describe the columns of rows."""
    if recognizer.columns is None:
        return None
    return [
        Column(
            name=column.name,
            kind=column.kind,
            levels=list(column.levels),
            typical=column.fill if column.kind == "number" else None,
        )
        for column in recognizer.columns
    ]


def _about(recognizer: Recognizer) -> About:
    """Describe the model and the service."""
    file, limits = recognizer.state.file, recognizer.limits
    table = file.model.signature_table_
    described_by: Any = "attributes" if recognizer.encoder is None else "text"
    attributes = []
    if table.indicators:
        described_by = "nothing"
    elif recognizer.encoder is None:
        # Classes without a view have NaN there.
        values = np.concatenate(table.arrays, axis=1)
        binary = ((values == 0) | (values == 1) | np.isnan(values)).all(axis=0)
        lows, highs = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
        attributes = [
            Attribute(name=name, low=low, high=high, binary=is_binary)
            for name, low, high, is_binary in zip(
                recognizer.attributes, lows, highs, binary, strict=True
            )
        ]
    return About(
        model=plain(recognizer.path.name, 200),
        method=plain(file.about.get("method") or file.header["method"], 200),
        version=__version__,
        takes_images=recognizer.backbone is not None,
        n_features=recognizer.n_features,
        columns=_columns(recognizer),
        described_by=described_by,
        attributes=attributes,
        example_text=recognizer.state.example_text() if described_by == "text" else None,
        learns=recognizer.can("add_examples"),
        adapts=recognizer.can("adapt"),
        samples=recognizer.pictures.samples if recognizer.pictures and recognizer.backbone else [],
        shows_pictures=recognizer.pictures is not None,
        max_batch=limits.batch if recognizer.columns is None else limits.rows,
        max_added=limits.added_classes,
        max_unlabelled=limits.unlabelled,
    )
