"""The application: bodies of requests and answers, and what is done at each address.

Features come as JSON, images as forms at addresses of their own (``/predict/images``). Images are
decoded in threads, answers are computed in the batcher's thread, and changes of the model are made
one after the other in a third one.
"""

# FastAPI reads the annotations in `api_router`, which are types that are built there.
# mypy: disable-error-code="valid-type, attr-defined"

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import resources
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, File, Header, Path, Query, Request, Response, UploadFile
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    create_model,
    model_validator,
)
from starlette.routing import Route

from zslearn._utils._fit_cache import fingerprint
from zslearn._utils._messages import plain
from zslearn._version import __version__
from zslearn.serving._batching import Batcher, Job
from zslearn.serving._recognizer import LARGEST, MAX_NAME, Recognizer, Refusal

# Bodies of requests; those whose size depends on the model are made in `api_router`.

#: A finite number; JSON's true is none.
Number = Annotated[float, Field(strict=True, ge=-LARGEST, le=LARGEST)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
Text = Annotated[str, Field(min_length=1, max_length=2000)]
#: Texts of one class, at most.
MAX_TEXTS = 100


def listed(least: int, most: int) -> Any:
    """Limits of a list, which is refused at its first fault."""
    return Field(min_length=least, max_length=most, fail_fast=True)


def at_most(size: int) -> BeforeValidator:
    """Refuse a large mapping as a whole: else each of its entries could be an error of its own."""

    def check(given: Any) -> Any:
        if isinstance(given, dict) and len(given) > size:
            raise ValueError(f"{len(given)} entries; there are at most {size}")
        return given

    return BeforeValidator(check)


class Body(BaseModel):
    """A body without unknown fields."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_many(cls, content: Any) -> Any:
        if isinstance(content, dict) and (extra := content.keys() - cls.model_fields.keys()):
            raise ValueError(f"there is no field {plain(min(extra), 60)!r}")
        return content


# Answers.

KnownBy = Literal["seen", "described only"]


class RankedClass(BaseModel):
    """A class that an image may be of."""

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
    """The answer for one image."""

    image: str
    ranked: list[RankedClass]
    none_of_these: bool | None
    surely: Surely | None
    explanation: dict[str, Any] | None
    features: list[float] | None = None


class Predictions(BaseModel):
    """The answers for the images, in their order."""

    predictions: list[Prediction]
    trial: str | None = Field(None, description="The name that the tried class has in the answer.")
    same_as: str | None = Field(None, description="A class with the same description as that one.")


class KnownClass(BaseModel):
    """A class that can be predicted."""

    name: str
    known_by: KnownBy
    added: bool
    examples: int = Field(description="Number of corrections of the class.")


class NewlyAdded(KnownClass):
    """A class that was just added."""

    same_as: str | None = Field(description="A class with the same description.")


class Classes(BaseModel):
    """Every class that can be predicted."""

    classes: list[KnownClass]


class DescribedClass(KnownClass):
    """A class with its description."""

    attributes: list[float | None] = Field(description="None for those of a view that it lacks.")
    texts: list[str]


class Attribute(BaseModel):
    """An attribute that classes are described by, with its range in the model file."""

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
    adapts: bool = Field(description="Whether it adapts to unlabelled images (/adapt).")
    samples: list[str] = Field(description="Some training images that /pictures shows.")
    shows_pictures: bool
    max_batch: int
    max_added: int
    max_unlabelled: int


class Health(BaseModel):
    """That the service is there."""

    status: Literal["ok"] = "ok"
    version: str = __version__


class Removed(BaseModel):
    """A class or a correction that was removed."""

    removed: str


class KeptExample(BaseModel):
    """A correction: an image whose class a user has given."""

    id: str
    class_: str = Field(alias="class")
    image: str


class Examples(BaseModel):
    """Corrections."""

    examples: list[KeptExample]


class Change(BaseModel):
    """The class of an image before and after."""

    before: str
    after: str


class Adaptation(BaseModel):
    """What adapting to unlabelled images changes."""

    accepted: bool = Field(description="Whether held-out classes gain by it.")
    preview: bool
    reason: str | None = Field(description="Why it is not accepted.")
    n_images: int
    score_before: float | None = Field(
        description="Of held-out classes, without it: the harmonic mean of their accuracy and that "
        "of the others."
    )
    score_after: float | None = Field(description="The same with it.")
    background_share: float | None = Field(description="Share of images that fit no class.")
    answers: list[Change]


class Adapted(BaseModel):
    """The number of unlabelled images that the model is adapted to; 0 for none."""

    n_images: int


class Reason(BaseModel):
    """The reason why a request was refused."""

    status: int
    reason: str


# Parameters.

Top = Annotated[int, Query(ge=1, le=50, description="Number of classes per image.")]
Among = Annotated[
    Literal["all", "seen", "described"],
    Query(description="The candidates: all classes, those with training images, or the others."),
]
Within = Annotated[
    list[str],
    Query(description="Only these classes, and those below these taxa of the service's taxonomy."),
]
Explain = Annotated[bool, Query(description="Whether to explain the predictions.")]
ShowFeatures = Annotated[bool, Query(description="Whether to return the features of the images.")]
ClassName = Annotated[str, Path(description="The name of a class.")]
OfClass = Annotated[str, Query(alias="class", description="The class of the images.")]
Preview = Annotated[bool, Query(description="Whether to report changes, and keep nothing.")]
ExampleId = Annotated[str, Path(description="The id of a correction.")]
PictureName = Annotated[str, Path(description="The name of a training image.")]
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

#: Changes whose outcomes are kept for requests that repeat them.
_MAX_KEYS = 256


class Writer:
    """The thread that changes the model; a change with a key is made once."""

    # A change whose request is given up while it waits is never begun; one that has begun is
    # carried out, and a repeated request with its key gets its outcome.

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        # Key → digest of the request, and its outcome. The event loop alone uses it.
        self._recent: dict[str, tuple[str, Future[Any]]] = {}

    def known(self, key: str | None, asked: str) -> Future[Any] | None:
        """The change that an earlier request with the same key asked for."""
        digest, work = self._recent.get(key or "", (asked, None))
        # After a failure of the service, as on a full disk, another attempt may succeed.
        if work is None or work.cancelled() or (work.done() and _has_failed(work.result())):
            return None
        if digest != asked:
            raise Refusal(422, "Idempotency-Key: another request was sent with this key.")
        return work

    async def make(self, key: str | None, asked: str, change: Callable[[], Any]) -> Any:
        """The outcome of a change, which is made unless its key is known."""
        work = self.known(key, asked)
        if work is None:
            work = self._thread.submit(_outcome, change)
            if key is not None:
                self._recent[key] = asked, work
                ended = (old for old, (_, known) in self._recent.items() if known.done())
                if len(self._recent) > _MAX_KEYS:
                    self._recent.pop(next(ended, ""), None)
        return await self.outcome(work)

    async def outcome(self, work: Future[Any]) -> Any:
        """What a change answers; the change is given up with the request until it begins."""
        try:
            outcome = await asyncio.wrap_future(work)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if work.cancelled() and task is not None and not task.cancelling():
                # An earlier request with the same key was given up before the change began.
                raise Refusal(503, "The change was not begun in time.", 1) from None
            raise
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def _outcome(change: Callable[[], Any]) -> Any:
    """The answer of a change, or its error without the traceback, which holds the images."""
    try:
        return change()
    except Exception as error:
        return error.with_traceback(None)


def _has_failed(outcome: Any) -> bool:
    """Whether the service, not the request, is the reason of an error."""
    status = outcome.status if isinstance(outcome, Refusal) else 500
    return isinstance(outcome, Exception) and status >= 500


_PAGE = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}


def page_routes() -> list[Route]:
    """The page for people, from the files of the package."""
    folder = resources.files("zslearn.serving") / "page"
    return [
        Route(path, Response((folder / name).read_bytes(), media_type=kind), methods=["GET"])
        for path, (name, kind) in _PAGE.items()
    ]


def api_router(recognizer: Recognizer, batcher: Batcher, metrics: Any) -> APIRouter:
    """What is done at each address."""
    router, limits, writer = APIRouter(), recognizer.limits, Writer()
    # A preview takes seconds, and no change waits for it.
    previews = ThreadPoolExecutor(1)
    # Memory for two of the largest images; a thread that has begun ends, whoever has gone.
    decoders = ThreadPoolExecutor(2)

    # Bodies of this model.

    n_features, names = recognizer.n_features, list(recognizer.attributes)
    Row = Annotated[list[Number], listed(n_features, n_features)]
    as_array = AfterValidator(lambda rows: np.asarray(rows, dtype=np.float64))
    Rows = Annotated[list[Row], listed(1, limits.batch), as_array]
    UnlabelledRows = Annotated[list[Row], listed(1, limits.unlabelled), as_array]
    Images = Annotated[list[UploadFile], File(min_length=1, max_length=limits.batch)]
    UnlabelledImages = Annotated[list[UploadFile], File(min_length=1, max_length=limits.unlabelled)]
    enum = {"enum": names} if recognizer.encoder is None else None
    ByName = dict[Annotated[str, Field(json_schema_extra=enum)], Number]
    InOrder = Annotated[list[Number], listed(len(names), len(names))]
    n_classes = len(recognizer.state.label_of) + limits.added_classes
    Odds = Annotated[float, Field(strict=True, gt=0, le=LARGEST)]
    Trial: Any = create_model(
        "Trial",
        __base__=Body,
        __doc__="A class that is tried, and not kept: described by attributes or by text.",
        attributes=(
            Annotated[ByName, at_most(len(names))] | InOrder | None,
            Field(None, description="Values by name of the attribute, or all of them in order."),
        ),
        like=(
            str | None,
            Field(None, description="The class that provides attributes which are not named."),
        ),
        text=(
            Text | Annotated[list[Text], listed(1, MAX_TEXTS)] | None,
            Field(None, description="Texts on the class, where the model's signatures are text."),
        ),
    )
    NewClass = create_model(
        "NewClass",
        __base__=Trial,
        __doc__="A class, described by attributes or by text.",
        name=(Name, ...),
    )
    Features = create_model(
        "Features",
        __base__=Body,
        __doc__="Feature vectors, one per image, and a class to try.",
        features=(Rows, ...),
        trial=(Trial | None, Field(None, description="A class that is tried, and not kept.")),
        prior=(
            Annotated[dict[str, Odds], at_most(n_classes)] | None,
            Field(None, description="Prior odds of classes; 1 for those not named."),
        ),
    )
    Labelled = create_model(
        "Labelled",
        __base__=Body,
        __doc__="Feature vectors of images of one class, and names of the images.",
        features=(Rows, ...),
        images=(Annotated[list[Name], listed(1, limits.batch)] | None, None),
    )
    Unlabelled = create_model(
        "Unlabelled",
        __base__=Body,
        __doc__="Feature vectors of unlabelled images.",
        features=(UnlabelledRows, ...),
    )

    # Images.

    async def decoded(images: list[UploadFile]) -> tuple[list[str], Any]:
        """Names of images, and the network's input for them."""
        recognizer.refuse_images()
        names = [plain(f.filename or "", 200) or f"image {i}" for i, f in enumerate(images)]
        work = [
            decoders.submit(recognizer.pixels, await file.read(), f"images[{i}] ({names[i]})")
            for i, file in enumerate(images)
        ]
        try:
            return names, np.stack(await asyncio.gather(*map(asyncio.wrap_future, work)))
        finally:
            # Where one is refused, those beside it are not decoded.
            for future in work:
                future.cancel()

    async def features_of(pixels: Any) -> Any:
        """Features of decoded images, computed with those of other requests."""
        return (await batcher.compute(Job(pixels, recognizer.state)))[1]

    def names_of(names: list[str] | None, n_rows: int) -> list[str]:
        """Names of images, which may be given with their features."""
        names = [str(place) for place in range(n_rows)] if names is None else names
        if len(names) != n_rows:
            raise Refusal(422, f"images: {len(names)} names were given for {n_rows} images.")
        return names

    # Predictions.

    async def predictions(
        names: list[str], job: Job, among: str, within: list[str], prior: Any, features: bool
    ) -> dict[str, Any]:
        job.candidates = recognizer.candidates(job.state, among, within)
        job.odds = recognizer.odds(job.state, prior)
        answers, rows = await batcher.compute(job)
        for answer in answers:
            metrics.images.labels(answer["ranked"][0]["known_by"]).inc()
        shown = rows.tolist() if features else [None] * len(answers)
        pairs = zip(names, answers, shown, strict=True)
        return {"predictions": [{"image": n, **a, "features": row} for n, a, row in pairs]}

    @router.post("/predict", response_model=Predictions)
    async def predict(
        body: Features,
        top: Top = 5,
        among: Among = "all",
        within: Within = [],  # noqa: B006
        explain: Explain = False,
        features: ShowFeatures = False,
    ) -> dict[str, Any]:
        """Rank the classes of feature vectors."""
        state, tried = recognizer.state, {}
        if body.trial is not None:
            state = await asyncio.to_thread(recognizer.trial, body.trial.model_dump())
            tried = {"trial": state.trial, "same_as": state.same_as(str(state.trial))}
        job = Job(body.features, state, top, explain=explain)
        names = names_of(None, len(job.X))
        return tried | await predictions(names, job, among, within, body.prior, features)

    @router.post("/predict/images", response_model=Predictions)
    async def predict_images(
        images: Images,
        top: Top = 5,
        among: Among = "all",
        within: Within = [],  # noqa: B006
        explain: Explain = False,
        features: ShowFeatures = False,
    ) -> dict[str, Any]:
        """Rank the classes of images."""
        names, pixels = await decoded(images)
        job = Job(pixels, recognizer.state, top, explain=explain)
        return await predictions(names, job, among, within, None, features)

    # Corrections.

    @router.get("/examples", response_model=Examples)
    async def list_examples() -> dict[str, Any]:
        """List every correction."""
        return {"examples": [e.info() for e in recognizer.state.examples.values()]}

    async def add_examples(
        request: Request, key: str | None, of_class: str, names: list[str], rows: Any
    ) -> Any:
        # Of what was sent: the features of an image depend, in their last digits, on its batch.
        asked = _digest(request, rows, names)
        known = writer.known(key, asked)
        if known is not None:
            return await writer.outcome(known)
        X = await features_of(rows) if rows.dtype == np.uint8 else rows

        def change() -> dict[str, Any]:
            return {"examples": [e.info() for e in recognizer.add_examples(X, of_class, names)]}

        return await writer.make(key, asked, change)

    @router.post("/examples", status_code=201, response_model=Examples)
    async def correct(request: Request, body: Labelled, of_class: OfClass, key: Key = None) -> Any:
        """Correct answers: give the class of feature vectors."""
        names = names_of(body.images, len(body.features))
        return await add_examples(request, key, of_class, names, body.features)

    @router.post("/examples/images", status_code=201, response_model=Examples)
    async def correct_images(
        request: Request, images: Images, of_class: OfClass, key: Key = None
    ) -> Any:
        """Correct answers: give the class of images."""
        return await add_examples(request, key, of_class, *await decoded(images))

    @router.delete("/examples/{id}", response_model=Removed)
    async def remove_example(request: Request, id: ExampleId, key: Key = None) -> Any:
        """Undo a correction."""

        def change() -> dict[str, str]:
            return {"removed": recognizer.remove_example(id)}

        return await writer.make(key, _digest(request), change)

    # Unlabelled images.

    @router.get("/adapt", response_model=Adapted)
    async def show_adaptation() -> dict[str, int]:
        """Return the number of unlabelled images that the model is adapted to."""
        return {"n_images": recognizer.state.n_unlabelled}

    async def adapt_to(request: Request, key: str | None, rows: Any, preview: bool) -> Any:
        asked = _digest(request, rows)
        if not preview and (known := writer.known(key, asked)) is not None:
            return await writer.outcome(known)
        X = await features_of(rows) if rows.dtype == np.uint8 else rows

        def change() -> dict[str, Any]:
            return recognizer.adapt(np.asarray(X, dtype=np.float64), preview=preview)

        if preview:
            return await writer.outcome(previews.submit(_outcome, change))
        return await writer.make(key, asked, change)

    @router.post("/adapt", response_model=Adaptation)
    async def adapt(
        request: Request, body: Unlabelled, preview: Preview = False, key: Key = None
    ) -> Any:
        """Adapt the model to feature vectors of unlabelled images."""
        return await adapt_to(request, key, body.features, preview)

    @router.post("/adapt/images", response_model=Adaptation)
    async def adapt_images(
        request: Request, images: UnlabelledImages, preview: Preview = False, key: Key = None
    ) -> Any:
        """Adapt the model to unlabelled images."""
        return await adapt_to(request, key, (await decoded(images))[1], preview)

    @router.delete("/adapt", response_model=Adapted)
    async def forget_adaptation(request: Request, key: Key = None) -> Any:
        """Undo the adaptation to unlabelled images."""

        def change() -> dict[str, int]:
            recognizer.forget_adaptation()
            return {"n_images": 0}

        return await writer.make(key, _digest(request), change)

    # Classes.

    @router.get("/classes", response_model=Classes)
    async def list_classes() -> dict[str, Any]:
        """List every class that can be predicted."""
        state = recognizer.state
        return {"classes": [state.class_info(name) for name in state.label_of]}

    @router.post("/classes", status_code=201, response_model=NewlyAdded)
    async def add_class(request: Request, body: NewClass, key: Key = None) -> Any:
        """Add a class by describing it."""

        def change() -> dict[str, Any]:
            name = recognizer.add(**body.model_dump())
            state = recognizer.state
            return {**state.class_info(name), "same_as": state.same_as(name)}

        return await writer.make(key, _digest(request, body.model_dump()), change)

    @router.get("/classes/{name:path}", response_model=DescribedClass)
    async def show_class(name: ClassName) -> dict[str, Any]:
        """Return a class with its description."""
        return recognizer.state.class_description(name)

    @router.delete("/classes/{name:path}", response_model=Removed)
    async def remove_class(request: Request, name: ClassName, key: Key = None) -> Any:
        """Remove a class that was added."""

        def change() -> dict[str, str]:
            return {"removed": recognizer.remove(name)}

        return await writer.make(key, _digest(request), change)

    # The service.

    about = _about(recognizer)

    @router.get("/about")
    async def show_about() -> About:
        """Return what is served."""
        return about

    @router.get(
        "/pictures/{name:path}",
        response_class=Response,
        responses={
            200: {"content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}}
        },
    )
    async def show_picture(name: PictureName) -> Response:
        """Return a small copy of a training image."""
        picture = asyncio.wrap_future(decoders.submit(recognizer.training_picture, name))
        return Response(await picture, media_type="image/jpeg")

    @router.get("/health")
    async def health() -> Health:
        """Return that the service is there."""
        return Health()

    @router.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def show_metrics() -> Response:
        """Return counters for Prometheus."""
        state = recognizer.state
        n_seen, n_added = len(state.seen), len(state.added)
        metrics.classes.labels("seen").set(n_seen)
        metrics.classes.labels("added").set(n_added)
        metrics.classes.labels("described only").set(len(state.label_of) - n_seen - n_added)
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return router


def _digest(request: Request, *content: Any) -> str:
    """A digest of what a request asks for, and of the content of its body."""
    return fingerprint(request.method, request.url.path, request.url.query, content)


def _about(recognizer: Recognizer) -> About:
    """What is served."""
    file, limits = recognizer.state.file, recognizer.limits
    table = file.model.signature_table_
    described_by: Any = "attributes" if recognizer.encoder is None else "text"
    attributes = []
    if table.indicators:
        described_by = "nothing"
    elif recognizer.encoder is None:
        # Classes that lack a view have NaN there.
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
        described_by=described_by,
        attributes=attributes,
        learns=recognizer.can("add_examples"),
        adapts=recognizer.can("adapt"),
        samples=recognizer.pictures.samples if recognizer.pictures and recognizer.backbone else [],
        shows_pictures=recognizer.pictures is not None,
        max_batch=limits.batch,
        max_added=limits.added_classes,
        max_unlabelled=limits.unlabelled,
    )
