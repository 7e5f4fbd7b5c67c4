"""The methods that runs know by name, in the order of tables, and how each is tuned."""

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
    """A method under the name it has in tables.

    Parameters
    ----------
    name : str
        As in the paper.
    make : callable
        Makes the method with its defaults.
    tune : callable, optional
        Takes the method, the data and :class:`TuningOptions`; gives the fitted search. By default
        the method's own grid is searched at once.
    in_default : bool, default=True
        Whether it is run where no methods are named. The other ones are found by their name.
    check : callable, optional
        Takes the data and raises a ValueError where the method cannot be measured on it, which is
        then said before anything is tuned.
    """

    name: str
    make: Callable[[], Any]
    tune: Tune = tune_at_once
    in_default: bool = True
    check: Callable[[ZeroShotDataset], None] | None = None

    def new(self, **values: Any) -> Any:
        """Make the method with some hyper-parameters, given to a method inside it too.

        Parameters
        ----------
        **values : object
            Values by the name of a hyper-parameter. Names that a method lacks are passed over.

        Returns
        -------
        zero-shot estimator
            Not fitted.

        Examples
        --------
        >>> from zslearn.model_selection import find_method
        >>> find_method("EXEM (ESZSL)").new(signature_scale="all").get_params()["estimator"]
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

        Where folds give unlabelled images, their weight is tuned too; where classes have several
        kinds of signatures, the weights of these.

        Parameters
        ----------
        data : ZeroShotDataset
            Or an object with its `X_train`, `y_train`, `signatures` and `with_signatures`.
        options : TuningOptions
            What is searched, in which folds.
        estimator : zero-shot estimator, optional
            What is tuned; by default what `make` gives.
        weights : sequence of tuple, optional
            Weights of several kinds of signatures to try; by default those of a lattice.

        Returns
        -------
        ZeroShotSearchCV
            Fitted.
        """
        tune = self.tune
        if getattr(options.cv, "unlabelled", None) is not None:
            tune = partial(tune_adapting, tune)
        estimator = self.make() if estimator is None else estimator
        return tune_with_views(tune, estimator, data, options, weights)

    def definition(self) -> list[Any]:
        """What a result depends on: the hyper-parameters and grids, those of an inner method too.

        Returns
        -------
        list
            For :func:`~zslearn._utils._fit_cache.fingerprint`.
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
    """Rows of the benchmark. Variants beside a method's usual form: see `_variants`."""
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
    """Methods in another form, which are run when they are named."""
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
    # For a few labelled images of a class, beside its description.
    yield Method("GDA", GDA)
    yield Method("Tip-Adapter", TipAdapter)
    # Methods since the paper that need the torch extra, and minutes or a GPU.
    yield Method("Class-Norm", ClassNorm)
    yield Method("CADA-VAE", CADAVAE)
    for name, graph_method in (("GCNZ", GCNZ), ("SGCN", SGCN), ("DGP", DGP)):
        yield Method(name, partial(graph_method, "cluster"))
    # Classifiers on generated features. Networks are as published but for their epochs.
    yield Method("generated Gaussians", partial(_generated_by, GaussianGenerator), tune_on_means)
    for name, generator in (("f-CLSWGAN", WGANGenerator), ("f-VAEGAN-D2", VAEGANGenerator)):
        yield Method(name, partial(_generated_by, generator), tune_generator)


def _original_forms() -> Iterator[Method]:
    """Methods as their own papers have them, where a choice of ours moves them in a table."""
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
    # A gap of three thousandths is far below what accuracies can tell.
    return SynC(loss=loss, tol=3e-3, **options)


def _exem(**options: Any) -> EXEM:
    # Ten times as exact as LIBSVM is by default, which the authors' program uses.
    return EXEM(tol=1e-4, **options)


def _exem_of(make: Callable[[], Any]) -> EXEM:
    return _exem(estimator=make())


def _check_attributes(name: str, data: ZeroShotDataset) -> None:
    """Refuse signatures that are binary for some classes and not for others."""
    several = isinstance(data.signatures, MultiSignatures)
    for view in data.signatures.views.values() if several else [data.signatures]:
        kind = binary_kind(view.loc[data.seen_classes].to_numpy(dtype=float))
        refuse_mixed_signatures(view.to_numpy(dtype=float), kind, view.index.to_numpy(), name)


#: Methods by name, in the order of the paper's tables; then those with ``in_default=False``.
METHODS: dict[str, Method] = {
    method.name: method
    for method in (*_methods(), *(replace(method, in_default=False) for method in _variants()))
}
#: The library's own methods, which the demo runs and a fit chooses from; the first where nothing is
#: tuned.
LEADING_METHODS = ("Gaussian EXEM", "EXEM (1NN)", "SynC o-vs-o")
#: Classes under their own names mean their default form.
_DEFAULT_FORMS = {"EXEM": "EXEM (1NN)", "SynC": "SynC o-vs-o"}


def default_methods() -> list[str]:
    """The names of the methods that are run where none are named.

    Returns
    -------
    list of str
        Keys of `METHODS`, in its order.
    """
    return [name for name, method in METHODS.items() if method.in_default]


#: Packages that bring methods name them under this entry point: a name and "module:Class".
ENTRY_POINTS = "zslearn.methods"


def find_method(name: str) -> Method:
    """Find a method by name: one of the library, of an installed package, or a class of one's own.

    Parameters
    ----------
    name : str
        A name in `METHODS`, in which capitals, spaces and brackets do not matter; the name of a
        class, which means its default form; a name that an installed package gives under the entry
        point "zslearn.methods"; or "module:Class", which is imported. What an entry point or a
        module gives is a :class:`Method`, or a class of estimators, which is then tuned on its own
        grids.

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
    # A class that is called like one of the library's goes by its whole name.
    return _as_method(name if attribute in METHODS else attribute, found)


def _known_name(name: str, known: list[str]) -> str:
    """The known name that differs from one in its spelling only; else an error with the nearest."""
    form, targets = squeeze_name(name), {n: n for n in known} | _DEFAULT_FORMS
    same = [target for n, target in targets.items() if form and squeeze_name(n) == form]
    if len(same) == 1:
        return same[0]
    # What begins the names of many: the usual forms are named first.
    begun = [candidate for candidate in known if form and squeeze_name(candidate).startswith(form)]
    usual = [candidate for candidate in begun if candidate in default_methods()]
    meant = same or usual or begun
    near = did_you_mean(name, targets, key=squeeze_name)
    several = "one of " if len(meant) > 1 else ""
    question = f" Did you mean {several}{', '.join(meant)}?" if meant else near
    raise ValueError(
        f"Unknown method: {name!r}.{question} There are: {', '.join(known)}; or name a class as "
        "module:Class."
    )


def _as_method(name: str, found: Any) -> Method:
    if isinstance(found, Method):
        return found
    if not isinstance(found, type) or not hasattr(found, "fit") or not hasattr(found, "grids"):
        raise ValueError(
            f"{name!r} is neither a Method nor a class of estimators with fit and grids."
        )
    return Method(name, found)
