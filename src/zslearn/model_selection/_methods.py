"""Methods by the names that runs and tables give them, and how each is tuned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from zslearn._utils._messages import did_you_mean, squeeze_name
from zslearn.baselines import (
    ALE,
    CCA,
    CMT,
    COSTA,
    DAP,
    ESZSL,
    GDA,
    GFZSL,
    HAT,
    IAP,
    SAE,
    SJE,
    SSE,
    BiDiLEL,
    CMTStar,
    ConSE,
    DeViSE,
    LatEm,
    TipAdapter,
)
from zslearn.datasets._dataset import ZeroShotDataset
from zslearn.model_selection._search import ZeroShotSearchCV
from zslearn.model_selection._tuning import (
    Tune,
    TuningOptions,
    tune_adapting,
    tune_at_once,
    tune_generator,
    tune_in_two_steps,
    tune_on_exemplars,
    tune_on_means,
    tune_whitened,
    tune_with_views,
    tune_without,
)
from zslearn.networks import (
    CADAVAE,
    DGP,
    GCNZ,
    SGCN,
    ClassNorm,
    GaussianGenerator,
    GeneratedFeatures,
    VAEGANGenerator,
    WGANGenerator,
)
from zslearn.signatures._attributes import binary_kind, refuse_mixed_signatures
from zslearn.signatures._views import MultiSignatures
from zslearn.synthesis._exem import EXEM
from zslearn.synthesis._gaussian import GaussianEXEM
from zslearn.synthesis._sync import SynC


@dataclass(frozen=True)
class Method:
    """A named method.

    Parameters
    ----------
    name : str
        The name in tables, as in the paper.
    make : callable
        Returns the method with its default hyper-parameters.
    tune : callable, optional
        Takes the method, the data and :class:`TuningOptions`, and returns the fitted search. By
        default it searches the method's own grid.
    in_default : bool, default=True
        Whether to run it when no methods are named.
    check : callable, optional
        Takes the data and raises a ValueError, before anything is tuned, if the method cannot be
        evaluated on it.
    """

    name: str
    make: Callable[[], Any]
    tune: Tune = tune_at_once
    in_default: bool = True
    check: Callable[[ZeroShotDataset], None] | None = None

    def make_with(self, **values: Any) -> Any:
        """Return the method with some hyper-parameters set, also in the method inside it.

        Parameters
        ----------
        **values : object
            Values by the name of a hyper-parameter. Names that the method lacks are ignored.

        Returns
        -------
        zero-shot estimator
            The unfitted method.

        Examples
        --------
        >>> from zslearn.model_selection import find_method
        >>> find_method("EXEM (ESZSL)").make_with(signature_scale="all").get_params()["estimator"]
        ESZSL(signature_scale='all')
        """
        estimator = self.make()
        given = {
            name: values[last]
            for name in estimator.get_params()
            if (last := name.rpartition("__")[-1]) in values
        }
        return estimator.set_params(**given)

    def search(
        self,
        data: Any,
        options: TuningOptions,
        estimator: Any = None,
        *,
        weights: Sequence[tuple[float, ...]] | None = None,
    ) -> ZeroShotSearchCV:
        """Tune the method on the training part of a data set.

        If the folds have unlabelled images, their weight is tuned as well; if classes have several
        kinds of signatures, so are the weights of these.

        Parameters
        ----------
        data : ZeroShotDataset
            Or another object with `X_train`, `y_train`, `signatures` and `with_signatures`.
        options : TuningOptions
            Grid, folds and other options of the search.
        estimator : zero-shot estimator, optional
            The method to tune; by default the result of `make`.
        weights : sequence of tuple, optional
            Weights of the kinds of signatures to try; by default those of a lattice.

        Returns
        -------
        ZeroShotSearchCV
            The fitted search.
        """
        tune = self.tune
        if getattr(options.cv, "unlabelled", None) is not None:
            tune = partial(tune_adapting, tune)
        estimator = self.make() if estimator is None else estimator
        return tune_with_views(tune, estimator, data, options, weights)

    def definition(self) -> list[Any]:
        """Return everything a result depends on: hyper-parameters and grids, also of inner methods.

        Returns
        -------
        list
            The parts of a fingerprint.
        """
        estimator = self.make()
        inner = getattr(estimator, "estimator", None)
        parts = [estimator] if inner is None else [estimator, inner]
        return [
            self.name,
            [(type(part).__name__, part, getattr(part, "grids", {})) for part in parts],
        ]


_LOSSES = {"SynC o-vs-o": "ovo", "SynC cs": "cs", "SynC struct": "struct"}


def _methods() -> Iterator[Method]:
    """Yield the methods of the benchmark."""
    yield Method("DAP", DAP, check=partial(_check_attributes, "DAP"))
    yield Method("IAP", IAP, check=partial(_check_attributes, "IAP"))
    yield Method("HAT", partial(HAT, "cluster"), check=partial(_check_attributes, "HAT"))
    yield Method("CMT", CMT)
    yield Method("CMT*", CMTStar)
    kind: type[Any]
    for kind in (DeViSE, ConSE, ALE, SJE, LatEm, SSE):
        yield Method(kind.__name__, kind)
    yield Method("ESZSL", ESZSL)
    yield Method("SAE", SAE)
    yield Method("SAE (feature to semantic)", partial(SAE, direction="feature_to_semantic"))
    for kind in (GFZSL, BiDiLEL, CCA, COSTA):
        yield Method(kind.__name__, kind)
    for name, loss in _LOSSES.items():
        yield Method(name, partial(_sync, loss))
    yield Method("EXEM (ConSE)", partial(_exem_of, ConSE), tune_on_exemplars)
    yield Method("EXEM (ESZSL)", partial(_exem_of, ESZSL), tune_on_exemplars)
    for name, loss in _LOSSES.items():
        make_exem = partial(_exem_of, partial(_sync, loss))
        yield Method(f"EXEM ({name})", make_exem, tune_on_exemplars)
    yield Method("EXEM (1NN)", _exem)
    yield Method("EXEM (1NNs)", partial(_exem, distance="standardized"))
    yield Method("Gaussian EXEM", GaussianEXEM)


def _variants() -> Iterator[Method]:
    """Yield variants and further methods, which run only when they are named."""
    whitened: list[tuple[str, Callable[[], Any], Any]] = [
        ("ESZSL", partial(_exem_of, ESZSL), tune_on_exemplars),
        ("SynC o-vs-o", partial(_exem_of, partial(_sync, "ovo")), tune_on_exemplars),
        ("SynC struct", partial(_exem_of, partial(_sync, "struct")), tune_on_exemplars),
        ("1NN", _exem, tune_at_once),
    ]
    for name, make, tune in whitened:
        yield Method(f"EXEM ({name}, whitened)", make, partial(tune_whitened, tune))
    yield from _original_forms()
    for name, loss in _LOSSES.items():
        learned = partial(_sync, loss, learn_phantoms=True)
        yield Method(f"{name} (learned phantoms)", learned, tune_in_two_steps)
    # For classes with a few labelled images.
    yield Method("GDA", GDA)
    yield Method("Tip-Adapter", TipAdapter)
    # Later methods, which need the torch extra and take minutes, or a GPU.
    yield Method("Class-Norm", ClassNorm)
    yield Method("CADA-VAE", CADAVAE)
    for name, graph_method in (("GCNZ", GCNZ), ("SGCN", SGCN), ("DGP", DGP)):
        yield Method(name, partial(graph_method, "cluster"))
    # Classifiers on generated features. Networks are as published except for their epochs.
    yield Method("generated Gaussians", partial(_generated_by, GaussianGenerator), tune_on_means)
    for name, generator in (("f-CLSWGAN", WGANGenerator), ("f-VAEGAN-D2", VAEGANGenerator)):
        yield Method(name, partial(_generated_by, generator), tune_generator)


def _original_forms() -> Iterator[Method]:
    """Yield methods as in their own papers, where a choice of ours changes the result."""
    forms: list[tuple[str, Callable[[], Any], list[str]]] = [
        ("SAE (original)", SAE, ["center", "alpha_reduction"]),
        (
            "SAE (feature to semantic, original)",
            partial(SAE, direction="feature_to_semantic", feature_norm=None, alpha_reduction=50.0),
            ["center", "alpha_reduction"],
        ),
        (
            "GFZSL (original)",
            GFZSL,
            ["covariance", "n_components", "alpha_variance", "variance_prior", "kernel"],
        ),
        ("BiDiLEL (original)", partial(BiDiLEL, placement="joint"), ["placement"]),
        ("IAP (SVM, Platt)", partial(IAP, probabilities="platt"), []),
        ("CMT* (common cutoff)", partial(CMTStar, threshold="common"), []),
    ]
    for name, make, kept in forms:
        yield Method(name, make, tune_without(*kept))


def _generated_by(generator: type[Any]) -> GeneratedFeatures:
    return GeneratedFeatures(generator())


def _sync(loss: str, **options: Any) -> SynC:
    # A duality gap of 0.003 changes no accuracy.
    return SynC(loss=loss, tol=3e-3, **options)


def _exem(**options: Any) -> EXEM:
    # A tenth of the default of LIBSVM, which the authors' program uses.
    return EXEM(tol=1e-4, **options)


def _exem_of(make: Callable[[], Any]) -> EXEM:
    return _exem(estimator=make())


def _check_attributes(name: str, data: ZeroShotDataset) -> None:
    """Refuse signatures that are binary for some classes and not for others."""
    several = isinstance(data.signatures, MultiSignatures)
    for view in data.signatures.views.values() if several else [data.signatures]:
        kind = binary_kind(view.loc[data.seen_classes].to_numpy(dtype=float))
        refuse_mixed_signatures(view.to_numpy(dtype=float), kind, view.index.to_numpy(), name)


#: Methods by name: those of the paper in the order of its tables, then the others.
METHODS: dict[str, Method] = {
    method.name: method
    for method in (*_methods(), *(replace(method, in_default=False) for method in _variants()))
}
#: Methods of this library, which the demo runs and `zslearn fit` chooses from (the first if nothing
#: is tuned).
LEADING_METHODS = ("Gaussian EXEM", "EXEM (1NN)", "SynC o-vs-o")
#: Methods that the name of a class stands for.
_DEFAULT_FORMS = {"EXEM": "EXEM (1NN)", "SynC": "SynC o-vs-o"}


def default_methods() -> list[str]:
    """Return the names of the methods that run when none are named.

    Returns
    -------
    list of str
        Keys of `METHODS`, in its order.
    """
    return [name for name, method in METHODS.items() if method.in_default]


#: Entry point under which installed packages register methods, as a name and "module:Class".
ENTRY_POINTS = "zslearn.methods"


def find_method(name: str) -> Method:
    """Find a method of the library, of an installed package, or of your own.

    Parameters
    ----------
    name : str
        A name in `METHODS`, ignoring case, spaces and brackets; the name of a class; a name that an
        installed package registers under the entry point "zslearn.methods"; or "module:Class". An
        entry point or module provides a :class:`Method`, or a class of estimators to be tuned on
        its own grids.

    Returns
    -------
    Method
        The method.

    Examples
    --------
    >>> from zslearn.model_selection import find_method
    >>> find_method("ESZSL").make()
    ESZSL()
    >>> find_method("exem-1nns").name
    'EXEM (1NNs)'
    >>> find_method("EXEM").name
    'EXEM (1NN)'
    >>> find_method("zslearn.baselines:CCA").make()
    CCA()
    """
    if name in METHODS:
        return METHODS[name]
    outside = {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
    if name in outside:
        return _as_method(name, outside[name].load())
    module, _, attribute = name.partition(":")
    if not attribute:
        known = _known_name(name, [*METHODS, *outside])
        return METHODS[known] if known in METHODS else _as_method(known, outside[known].load())
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"The method {name!r} cannot be imported: {error}.") from error
    # A class with the name of one of the library's keeps its full name.
    return _as_method(name if attribute in METHODS else attribute, found)


def _known_name(name: str, known: list[str]) -> str:
    """The known name with the same letters and digits; else raise, with suggestions."""
    form, targets = squeeze_name(name), {n: n for n in known} | _DEFAULT_FORMS
    same = [target for n, target in targets.items() if form and squeeze_name(n) == form]
    if len(same) == 1:
        return same[0]
    # Of names that begin like this, suggest the default methods first.
    begun = [candidate for candidate in known if form and squeeze_name(candidate).startswith(form)]
    usual = [candidate for candidate in begun if candidate in default_methods()]
    meant = same or usual or begun
    near = did_you_mean(name, targets, key=squeeze_name)
    several = "one of " if len(meant) > 1 else ""
    question = f" Did you mean {several}{', '.join(meant)}?" if meant else near
    raise ValueError(
        f"Unknown method: {name!r}.{question} Known methods: {', '.join(known)}; or a class of "
        "your own as module:Class."
    )


def _as_method(name: str, found: Any) -> Method:
    if isinstance(found, Method):
        return found
    if not isinstance(found, type) or not hasattr(found, "fit") or not hasattr(found, "grids"):
        raise ValueError(
            f"{name!r} is neither a Method nor a class of estimators with fit and grids."
        )
    return Method(name, found)
