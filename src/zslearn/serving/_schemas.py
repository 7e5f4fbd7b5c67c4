"""What requests and answers look like: the OpenAPI document is made of these."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from zslearn.serving._refusals import MAX_NAME, MAX_TEXT, MAX_TEXTS

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
Name = Annotated[str, Field(min_length=1, max_length=4 * MAX_NAME)]
Values = dict[str, Number] | list[Number]
Texts = Text | Annotated[list[Text], Field(min_length=1, max_length=MAX_TEXTS)]
KnownBy = Literal["seen", "described only"]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Trial(_Body):
    """A class that is tried, and not kept."""

    attributes: Values | None = None
    like: str | None = None
    text: Texts | None = None


class Features(_Body):
    """Feature vectors, one per image."""

    features: Annotated[list[list[Number]], Field(min_length=1)]
    trial: Trial | None = Field(None, description="A class that is tried, and not kept.")


class NewClass(_Body):
    """A class, described by attributes or by text."""

    name: Name
    attributes: Values | None = Field(
        None, description="Values by the name of the attribute, or all of them in order."
    )
    like: str | None = Field(
        None, description="The class whose values attributes have that are not named."
    )
    text: Texts | None = Field(
        None, description="What is said of the class, where the model's signatures are text."
    )


class RankedClass(BaseModel):
    """A class that an image may be of."""

    model_config = ConfigDict(populate_by_name=True)

    class_: str = Field(alias="class")
    known_by: KnownBy
    added: bool
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


class KnownClass(BaseModel):
    """A class that can be predicted."""

    name: str
    known_by: KnownBy
    added: bool


class Classes(BaseModel):
    """Every class that can be predicted."""

    classes: list[KnownClass]


class DescribedClass(KnownClass):
    """A class with its description."""

    attributes: list[float]
    texts: list[str]


class Attribute(BaseModel):
    """What classes are described by, with its range in the model file."""

    name: str
    low: float
    high: float


class About(BaseModel):
    """What is served."""

    model: str
    method: str
    version: str
    takes_images: bool
    n_features: int
    described_by: Literal["attributes", "text", "nothing"]
    attributes: list[Attribute]
    max_batch: int
    max_added: int


class Health(BaseModel):
    """That the service is there."""

    status: Literal["ok"]
    version: str


class Removed(BaseModel):
    """A class that is gone."""

    removed: str


class Reason(BaseModel):
    """Why a request was refused."""

    status: int
    reason: str
