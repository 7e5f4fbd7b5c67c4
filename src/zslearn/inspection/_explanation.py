"""What is said of a prediction: records, as text and for JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from zslearn.utils import plain


@dataclass(frozen=True)
class Prediction:
    """A class that an image may be of.

    Parameters
    ----------
    label : str, int or bool
        The class.
    kind : {"seen", "described only"}
        Whether the class had training images.
    score : float
        Its score.
    probability : float or None
        Its probability among the candidates; None where the model has no temperature.
    """

    label: Any
    kind: str
    score: float
    probability: float | None

    def __str__(self) -> str:
        chance = "" if self.probability is None else f", probability {self.probability:.2f}"
        return f"{plain(str(self.label))} ({self.kind}{chance})"


@dataclass(frozen=True)
class SeenShare:
    """A seen class that a described one was made from.

    Parameters
    ----------
    label : str, int or bool
        The seen class.
    share : float
        Its share; those of all seen classes sum to 1.
    """

    label: Any
    share: float


@dataclass(frozen=True)
class AttributeEffect:
    """An attribute that told the predicted class from the runner-up.

    Parameters
    ----------
    name : str
        The attribute.
    value : float
        That of the predicted class, as it was described.
    runner_up_value : float
        That of the runner-up.
    effect : float
        How much the score of the predicted class falls if it has the runner-up's value and all
        else stays: the class is described so, and made anew.
    """

    name: str
    value: float
    runner_up_value: float
    effect: float


@dataclass(frozen=True)
class NearPicture:
    """A training picture near the image.

    Parameters
    ----------
    name : str or int
        Its name, or its row.
    label : str, int or bool
        Its class.
    distance : float
        Between the two as the model embeds them.
    """

    name: Any
    label: Any
    distance: float


@dataclass(frozen=True)
class Explanation:
    """Why an image is predicted as it is.

    Parameters
    ----------
    predicted : Prediction
        The best class.
    runner_up : Prediction or None
        The second best; None where there is one candidate.
    rejected : bool
        Whether the model says "none of these" all the same.
    made_from : tuple of SeenShare
        Of a class that is described only, the seen classes with the largest shares in it.
    made_by : str
        What the shares are.
    attributes : tuple of AttributeEffect
        Of such a class, what told it from the runner-up, largest effect first.
    pictures : tuple of NearPicture
        The nearest training pictures, where these were given.
    """

    predicted: Prediction
    runner_up: Prediction | None
    rejected: bool = False
    made_from: tuple[SeenShare, ...] = ()
    made_by: str = ""
    attributes: tuple[AttributeEffect, ...] = ()
    pictures: tuple[NearPicture, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The explanation as dictionaries, lists, strings and numbers, as JSON has them.

        Returns
        -------
        dict
            Keys are the fields.
        """
        content: dict[str, Any] = asdict(self)
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in content.items()
        }

    def __str__(self) -> str:
        lines = [str(self.predicted)]
        if self.rejected:
            lines[0] = f"none of these; the nearest is {self.predicted}"
        if self.runner_up is not None:
            lines.append(f"  runner-up: {self.runner_up}")
        if self.made_from:
            parts = [f"{plain(str(part.label))} {part.share:.0%}" for part in self.made_from]
            lines.append(f"  made from: {', '.join(parts)} ({self.made_by})")
        if self.attributes and self.runner_up is not None:
            parts = [
                f"{plain(part.name)}: {part.value:.3g} against {part.runner_up_value:.3g} "
                f"({part.effect:+.2g})"
                for part in self.attributes
            ]
            rival = plain(str(self.runner_up.label))
            lines.append(f"  told from {rival} by: {'; '.join(parts)}")
        if self.pictures:
            parts = [
                f"{plain(str(picture.name))} ({plain(str(picture.label))}, {picture.distance:.2f})"
                for picture in self.pictures
            ]
            lines.append(f"  nearest training pictures: {', '.join(parts)}")
        return "\n".join(lines)
