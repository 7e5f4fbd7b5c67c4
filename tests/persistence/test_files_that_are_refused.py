"""Each way in which a model file can be wrong, and what is said of it; versions of the format."""

from __future__ import annotations

import copy
import json
import re
import sys

import numpy as np
import pytest
import sklearn
from safetensors import safe_open
from safetensors.numpy import save_file
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from fuzz.model_file_corpus import Parts, problem, put_together, take_apart
from fuzz.model_mutations import SPECIAL, file_of
from zslearn import persistence
from zslearn._utils._reading import FileLimitError
from zslearn.base import InputWarning
from zslearn.baselines import ESZSL, HAT
from zslearn.calibration import CalibratedStacking
from zslearn.model_selection import ZeroShotPipeline
from zslearn.networks import GeneratedFeatures
from zslearn.persistence import ModelFileError
from zslearn.signatures import MultiSignatures, cluster_hierarchy
from zslearn.synthesis import EXEM, GaussianEXEM, SynC

SCORER = "zslearn.synthesis.exemplar_distance_score"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


def _file(model, folder, name):
    data = problem()
    model.fit(data.X_train, data.y_train, signatures=data.signatures)
    persistence.save(model, folder / name, extras={"x": np.arange(3.0)})
    return (folder / name).read_bytes()


@pytest.fixture(scope="module")
def whole(folder):
    return _file(ESZSL(), folder, "eszsl.zsl")


@pytest.fixture(scope="module")
def parts(whole):
    return take_apart(whole)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.zsl"


def refused(path, file, *, describes=False):
    """The error for a file; `describe` gives the same if the header shows the problem."""
    path.write_bytes(file)
    with pytest.raises(ModelFileError) as caught:
        persistence.load(path)
    said = str(caught.value)
    assert said.startswith(f"{path} cannot be loaded: ")
    assert isinstance(caught.value, ValueError)
    if describes:
        with pytest.raises(ModelFileError) as caught:
            persistence.describe(path)
        assert str(caught.value) == said
    return said


def changed(parts, change):
    """A file with a right checksum, whose description was changed."""
    content = copy.deepcopy(parts.content)
    change(content)
    return put_together(Parts(content, parts.table, parts.data))


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (b"", "longer than the file"),
        (b"\x80\x04}.", "longer than the file"),
        (
            b"\x80\x04\x95\x1c\x00\x00\x00\x00\x00\x00\x00" + b"cos\nsystem\n",
            "longer than the file",
        ),
        ((2**63).to_bytes(8, "little") + b"{}", "longer than the file"),
        ((2).to_bytes(8, "little") + b"{}", "lacks the metadata of zslearn"),
        (b"PK\x03\x04" + bytes(100), "longer than the file"),
    ],
)
def test_files_of_other_kinds(path, file, message):
    assert re.search(message, refused(path, file, describes=True))


def test_accidents(path, whole):
    half = len(whole) // 2
    assert "damaged or incomplete" in refused(path, whole[:-1], describes=True)
    assert "damaged or incomplete" in refused(path, whole + b"xx", describes=True)
    flipped = bytearray(whole)
    flipped[-half // 2] ^= 1
    assert "checksum does not match" in refused(path, bytes(flipped))
    text = whole.replace(b"alpha_features", b"alpha_featuret")
    assert "checksum does not match" in refused(path, text)


def test_damage_to_any_byte_is_found(path, whole):
    n_header = 8 + int.from_bytes(whole[:8], "little")
    # Some bytes of each part, and all of the padding at the end of the header.
    some = [
        *range(0, n_header, 7),
        *range(n_header - 8, n_header),
        *range(n_header, len(whole), 97),
    ]
    for place in some:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << (place % 8)
        refused(path, bytes(flipped))


def test_the_layout_of_the_header_does_not_matter(path, whole):
    """A file that safetensors wrote from the same arrays and metadata is the same model."""
    path.write_bytes(whole)
    before = persistence.load(path)
    with safe_open(path, framework="np") as tensors:
        arrays = {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118
        metadata = tensors.metadata()
    save_file(dict(reversed(arrays.items())), path, metadata=metadata)
    file = path.read_bytes()
    length = int.from_bytes(file[:8], "little")
    header = json.dumps(json.loads(file[8 : 8 + length]), indent=1).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + file[8 + length :])
    assert np.array_equal(persistence.load(path).coef_, before.coef_)


TABLES = [
    lambda t, n: t[n].update(shape=[10**12]),
    lambda t, n: t[n].update(shape=[2**61, 2**61]),
    lambda t, n: t[n].update(shape=[0, 2**61]),
    lambda t, n: t[n].update(shape=[-1, -8]),
    lambda t, n: t[n].update(shape=[True]),
    lambda t, n: t[n].update(shape=[1] * 100 + t[n]["shape"]),
    lambda t, n: t[n].update(dtype="OBJECT"),
    lambda t, n: t[n].update(dtype="BF16", shape=[4, *t[n]["shape"]]),
    lambda t, n: t[n].update(dtype=["F64"]),
    lambda t, n: t[n].update(data_offsets=[8, 0]),
    lambda t, n: t[n].update(data_offsets=[0]),
    lambda t, n: t.update(again=copy.deepcopy(t[n])),
    lambda t, n: t.pop(n),
    lambda t, n: t.update({"../../x": t.pop(n)}),
]


def test_tables_of_arrays(path, parts):
    name = next(iter(parts.table))
    for change in TABLES:
        table = copy.deepcopy(parts.table)
        change(table, name)
        refused(path, put_together(Parts(parts.content, table, parts.data)))


def test_an_array_that_nothing_names(path, parts):
    table = copy.deepcopy(parts.table)
    end = max(said["data_offsets"][1] for said in table.values())
    table["more"] = {"dtype": "U8", "shape": [1], "data_offsets": [end, end + 1]}
    said = refused(path, put_together(Parts(parts.content, table, parts.data + b"x")))
    assert "its array 'more' is not used" in said


DESCRIPTIONS = [
    (
        lambda c: c["model"].update(object="os.system"),
        "'os.system', which this version does not support.*register",
    ),
    (lambda c: c["model"].update(object="zslearn.cli.main"), "does not support"),
    (lambda c: c["model"].update(object="zslearn.baselines._eszsl.ESZSL"), "does not support"),
    (lambda c: c["model"].update(object="sklearn.pipeline.os"), "does not support"),
    (lambda c: c["model"].update(object="zslearn.metrics.ausuc"), "does not support"),
    (lambda c: c["model"].update(object=SCORER), "is not a class"),
    (lambda c: c["model"].update(object="zslearn.calibration._folds.ClassKFold"), "ClassKFold"),
    (lambda c: c["model"].update(other=1), "with unknown keys"),
    (lambda c: c["model"]["parameters"].update(alpha_features=-1.0), "alpha_features"),
    (lambda c: c["model"]["parameters"].update(alpha_features={"float": "nan"}), "Got nan"),
    (lambda c: c["model"]["parameters"].update(evil=1), "invalid attributes"),
    (lambda c: c["model"]["state"].update(predict=1), "'predict' of its .* hides one of its class"),
    (lambda c: c["model"]["state"].update(__class__=1), "attribute '__class__'"),
    (lambda c: c["model"]["state"].update({"a b": 1}), "attribute 'a b'"),
    (lambda c: c["model"]["state"].pop("_described"), "_described is missing"),
    (lambda c: c["model"]["state"].update(more_=1), "more_ is not an attribute of its class"),
    (lambda c: c["model"]["state"].update(_described=None), "_described is missing"),
    (lambda c: c["model"]["state"].pop("coef_"), "coef_"),
    (lambda c: c["model"]["state"].update(n_features_in_=-1), "n_features_in_ has numbers below 1"),
    (lambda c: c["model"]["state"].update(n_features_in_=3), "coef_ has shape .7, 5."),
    (lambda c: c["model"]["state"].update(coef_={"same": 0}), "refers to an object"),
    (lambda c: c["model"]["state"].update(coef_={"same": 99}), "refers to an object"),
    (lambda c: c["summary"]["classes"].reverse(), "summary describes another model"),
    (lambda c: c["summary"].update(n_features=8), "summary describes another model"),
    (lambda c: c.update(surprise=1), "unknown entries"),
    (lambda c: c.pop("about"), "missing or unknown entries"),
    (lambda c: c.update(about=[1]), "missing or unknown entries"),
    (lambda c: c.update(model=[1]), "lacks the method"),
    (lambda c: c.update(extras={"x": 1}), "extras"),
    (lambda c: c["extras"].append(["y", 3]), "not named arrays"),
    (lambda c: c["extras"].append(c["extras"][0]), "not named arrays"),
]


def test_descriptions(path, parts):
    for change, message in DESCRIPTIONS:
        said = refused(path, changed(parts, change))
        assert re.search(message, said), said


NODES = [
    ({"dict": [[1, 2], [1, 3]]}, "duplicate key"),
    ({"dict": [[[], 2]]}, "invalid"),
    ({"dict": 3}, "instead of a list"),
    ({"set": [1, 1]}, "duplicate"),
    ({"array": "nothing"}, "lacks the array"),
    ({"objects": [[10**9], [1]]}, "wrong shape"),
    ({"objects": [[-1, -1], [1]]}, "wrong shape"),
    ({"scalar": ["uint8", 300]}, "invalid value|not a valid"),
    ({"scalar": ["object", 3]}, "unknown type"),
    ({"dtype": "V99999999"}, "unknown dtype"),
    ({"numpy": "float64"}, "unknown kind"),
    ({"function": "os.system"}, "does not support"),
    ({"function": "zslearn.baselines.ESZSL"}, "class instead of a function"),
    ({"random_state": {"dict": []}}, "invalid"),
    ({"generator": {"dict": [["bit_generator", "PCG64"]]}}, "unknown kind"),
    ({"function": "zslearn.model_selection.read_landscape"}, "does not support"),
    ({"frame": [[], 1, 2]}, "without an index"),
    ({"pickle": "gASVAAAA"}, "unknown kind 'pickle'"),
    ({"reduce": ["os.system", ["true"]]}, "unknown kind"),
    ({}, "unknown kind"),
    ({"float": "1e3"}, "finite|invalid value"),
    ({"tuple": 3}, "instead of a list"),
]


def test_nodes(path, parts):
    for node, message in NODES:
        file = changed(parts, lambda c, node=node: c["model"]["state"].update(extra_=node))
        said = refused(path, file)
        assert re.search(message, said), said


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("_described.parameters", lambda a: a[:-1], "labels has shape .9,., but 8 .n_classes."),
        ("_described.table.arrays.0", lambda a: a[:-1], r"arrays has shape \(8, 5\), but 9"),
        ("_described.table.arrays.0", lambda a: a[:, :-1], "different numbers of attributes"),
        ("_described.table.labels", lambda a: a[::-1], "not sorted"),
        ("_described.table.labels", lambda a: a[[0, 0, *range(2, 9)]], "duplicates"),
        ("_described.table.labels", lambda a: a | np.uint32(0x110000), "invalid characters"),
        ("_described.table.labels", lambda a: a[:-1], "but 8 .n_classes. is needed"),
        ("coef_", lambda a: a[:-1], "do not fit|cannot be"),
        ("seen_classes_", lambda a: a[:, ::-1], "not sorted|does not describe"),
    ],
)
def test_shapes_that_do_not_fit(path, parts, name, change, message):
    name = f"ESZSL.{name}"
    said = refused(path, put_together(parts.with_array(name, change(parts.array(name)))))
    assert re.search(message, said), said


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.astype(float), "group is not an array of type int"),
        (lambda a: a[:, None], "group has 2 axes, not 1"),
        (lambda a: a[:-1], "but 34 .n_classes."),
        (lambda a: a - 100, "group has numbers below 0"),
        (lambda a: a + 100, "parameters that are not stored"),
    ],
)
def test_rows_that_classes_share(path, tmp_path, change, message):
    parts = file_of(SPECIAL["ESZSL of categories"], tmp_path)
    name = "ESZSL._described.group"
    said = refused(path, put_together(parts.with_array(name, change(parts.array(name)))))
    assert re.search(message, said), said


def test_a_hierarchy_in_a_circle_ends(path, folder):
    tree = cluster_hierarchy(problem().signatures)
    parts = take_apart(_file(HAT(hierarchy=tree), folder, "hat.zsl"))
    parents = parts.array("HAT._nodes.parents")
    parents[0], parents[1] = 1, 0
    said = refused(path, put_together(parts.with_array("HAT._nodes.parents", parents)))
    assert "do not come after their parents" in said

    def circle(content):
        pairs = content["model"]["state"]["_tree"]["state"]["parents"]["dict"]
        child, parent = pairs[0]
        pairs.append([parent, child])
        pairs[:] = [p for p in pairs if p[0] != parent] + [[parent, child]]

    assert "cycle" in refused(path, changed(parts, circle))


def test_a_pipeline_with_a_place_on_a_disk(path, folder):
    model = ZeroShotPipeline([("scale", StandardScaler()), ("method", ESZSL())])
    parts = take_apart(_file(model, folder, "pipeline.zsl"))
    file = changed(parts, lambda c: c["model"]["parameters"].update(memory="/tmp/cache"))
    assert "has a path as memory" in refused(path, file)


def test_jobs_without_end(path, folder):
    parts = take_apart(_file(EXEM(n_components=3), folder, "exem.zsl"))
    file = changed(parts, lambda c: c["model"]["parameters"].update(n_jobs=10**9))
    assert "n_jobs=1000000000" in refused(path, file)


# Files that were made to do harm. Before they were refused, loading one of them, or using what was
# loaded, ended the process, started others, or took time or memory without a limit.


def _pipeline(*steps):
    return ZeroShotPipeline(
        [*((f"step {i}", step) for i, step in enumerate(steps)), ("m", ESZSL())]
    )


@pytest.fixture(scope="module")
def scaled(folder):
    return take_apart(_file(_pipeline(StandardScaler()), folder, "scaled.zsl"))


@pytest.fixture(scope="module")
def ridge(folder):
    return take_apart(_file(EXEM(n_components=2, regressor=Ridge()), folder, "ridge.zsl"))


def _node(content, name):
    """The first fitted object of a class in a description."""
    if isinstance(content, dict):
        if content.get("object", "").endswith(f".{name}") and "state" in content:
            return content
        content = list(content.values())
    nodes = (_node(item, name) for item in content) if isinstance(content, list) else ()
    return next((node for node in nodes if node is not None), None)


def _named(parts, end):
    return next(name for name in parts.table if name.endswith(end))


OTHER_CLASSES = [
    "decomposition.KernelPCA",
    "feature_selection.SelectFromModel",
    "linear_model.LogisticRegressionCV",
    "multioutput.MultiOutputRegressor",
    "pipeline.FeatureUnion",
    "preprocessing.PolynomialFeatures",
    "svm.NuSVR",
    "svm.SVC",
]


def test_classes_and_functions_that_no_file_may_name(path, parts):
    for name in [f"sklearn.{name}" for name in OTHER_CLASSES] + ["sklearn.antigravity.x"]:
        file = changed(parts, lambda c, n=name: c["model"]["state"].update(extra_={"object": n}))
        assert f"'{name}', which this version does not support" in refused(path, file)
    refused(path, changed(parts, lambda c: c["model"].update(object="antigravity.geohash")))
    assert "antigravity" not in sys.modules
    # Functions are for searches alone.
    for name, parameter in (
        ("kernel_ridge.KernelRidge", "kernel"),
        ("gaussian_process.GaussianProcessRegressor", "optimizer"),
    ):
        node = {"object": f"sklearn.{name}", "parameters": {parameter: {"function": SCORER}}}
        file = changed(parts, lambda c, node=node: c["model"]["state"].update(extra_=node))
        assert "has a function as an attribute" in refused(path, file)


def _doubled(first, wrap, n_levels):
    """A thing that holds the one before it twice, and so on."""
    node = first
    for number in range(n_levels):
        node = wrap(node, {"same": number})
    return node


def _sum(one, other):
    return {"object": "sklearn.gaussian_process.kernels.Sum", "state": {"k1": one, "k2": other}}


WHITE = {
    "object": "sklearn.gaussian_process.kernels.WhiteKernel",
    "state": {"noise_level": 0.1, "noise_level_bounds": "fixed"},
}


def test_kernels_that_are_shared_without_end(path, folder):
    parts = take_apart(_file(EXEM(n_components=2, regressor="gp"), folder, "kernel.zsl"))

    def stacked(content):
        _node(content, "GaussianProcessRegressor")["state"]["kernel_"] = {"same": 40}
        twice = _doubled(WHITE, _sum, 40)
        content["model"]["state"] = {"extra_": twice, **content["model"]["state"]}

    assert "shared too often" in refused(path, changed(parts, stacked))


@pytest.mark.parametrize("position", [10**6, 625, -1, True])
def test_positions_of_random_states(path, folder, position):
    model = SynC(random_state=np.random.RandomState(3))
    parts = take_apart(_file(model, folder, "random.zsl"))

    def moved(content):
        pairs = content["model"]["parameters"]["random_state"]["random_state"]["dict"]
        inner = dict(map(tuple, pairs))["state"]["dict"]
        inner[[key for key, _ in inner].index("pos")][1] = position

    assert "random state with an invalid position" in refused(path, changed(parts, moved))


def _too_large(path, file):
    path.write_bytes(file)
    with pytest.raises(FileLimitError, match=re.escape(f"{path}: reading it takes about ")):
        persistence.load(path)


@pytest.mark.parametrize("n_features", [2**26, 10**15])
def test_features_without_end(path, parts, scaled, n_features):
    file = changed(parts, lambda c: c["model"]["state"].update(n_features_in_=n_features))
    assert f"but {n_features} (n_features) is needed" in refused(path, file)

    def wide(content):
        _node(content, "StandardScaler")["state"]["n_features_in_"] = n_features

    _too_large(path, changed(scaled, wide))


def test_generated_features_without_end(path, folder):
    model = GeneratedFeatures(n_generated=5, classifier="mean")
    parts = take_apart(_file(model, folder, "generated.zsl"))
    file = changed(parts, lambda c: c["model"]["parameters"].update(n_generated=10**9))
    _too_large(path, file)


@pytest.mark.parametrize("kind", ["U32", "F64"])
def test_empty_arrays_with_long_axes(path, parts, kind):
    table = copy.deepcopy(parts.table)
    end = max(said["data_offsets"][1] for said in table.values())
    table["empty"] = {"dtype": kind, "shape": [2**27, 0], "data_offsets": [end, end]}
    content = copy.deepcopy(parts.content)
    node = {"array": "empty", **({"as": "U"} if kind == "U32" else {})}
    content["model"]["state"]["extra_"] = node
    _too_large(path, put_together(Parts(content, table, parts.data)))


def test_a_table_of_one_column_again_and_again(path, parts):
    column = {"array": "extras.0"}
    labels = {"index": [column, None]}
    names = {"index": [{"objects": [[10**4], list(range(10**4))]}, None]}
    table = {"frame": [[column] * 10**4, labels, names]}
    big = parts.with_array("extras.0", np.arange(200.0))
    _too_large(path, changed(big, lambda c: c["model"]["state"].update(extra_=table)))


def test_vectors_of_two_axes(path, parts, ridge):
    """A row and a column of n numbers make a table of n² of them."""
    for file, end, name in ((parts, "mean_", "ESZSL"), (ridge, "intercept_", "Ridge")):
        array = _named(file, f".{end}")
        column = file.array(array)[:, None]
        said = f"its {name} (has {end}, which is not a vector|is inconsistent: {end} )"
        assert re.search(said, refused(path, put_together(file.with_array(array, column))))
        content = copy.deepcopy(file.content)
        _node(content["model"], name)["state"][end] = column.tolist()
        assert re.search(said, refused(path, put_together(Parts(content, file.table, file.data))))


@pytest.fixture(scope="module")
def gaussian(folder):
    return take_apart(_file(GaussianEXEM(), folder, "gaussian.zsl"))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        # Subtracted from rows, a column of n numbers makes n copies of them.
        ({"space.complement.center": (60_000, 1)}, "Complement.*: center has 2 axes, not 1"),
        ({"space.complement.center": (60_000,)}, "Complement.*: whitening has shape"),
        ({"space.complement.whitening": (7, 60_000)}, "Complement.*: whitening has shape"),
        (
            {"space.complement.center": (60,), "space.complement.whitening": (7, 60)},
            "WhitenedSpace.*: complement.center has shape",
        ),
        # A kernel with so many classes would have 9,000 × 9,000 numbers.
        ({"prior.kernel.seen": (9_000, 5)}, "ClassPrior.*: kernel.seen has shape"),
        (
            {f"prior.{name}": (9_000, 5) for name in ("kernel.seen", "points", "coef")},
            "ClassPrior.*: process.coef has shape",
        ),
        ({"orthogonal.means": (0, 60_000)}, "ClassPosterior.*: orthogonal.means has shape"),
        ({"exemplars": (6, 60_000)}, "ClassPosterior.*: variance_ratio has shape"),
        ({"few_shot": (60_000,)}, "few_shot is not an array of type bool"),
    ],
)
def test_shapes_that_would_take_memory_later(path, gaussian, arrays, message):
    """Memory depends on the declared shapes, which must agree with those of the whole model."""
    for name, shape in arrays.items():
        gaussian = gaussian.with_array(f"GaussianEXEM.posterior_.{name}", np.ones(shape))
    said = refused(path, put_together(gaussian))
    assert re.search(message, said), said


def test_numbers_that_cannot_be(path, gaussian):
    for end, value in [("axis_weights", 0.0), ("leave_one_out.variances", -1.0)]:
        name = f"GaussianEXEM.posterior_.{end}"
        array = gaussian.array(name)
        array.flat[0] = value
        said = refused(path, put_together(gaussian.with_array(name, array)))
        assert re.search("has numbers (below|that are not above) 0", said), said
    content = copy.deepcopy(gaussian.content)
    _node(content["model"], "ClassPosterior")["state"]["temperature"] = -1.0
    said = refused(path, put_together(Parts(content, gaussian.table, gaussian.data)))
    assert "temperature has numbers that are not above 0" in said


def test_what_is_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        persistence.load(tmp_path / "nothing.zsl")
    with pytest.raises((ModelFileError, IsADirectoryError)):
        persistence.load(tmp_path)


def test_memory_has_a_limit(path, whole, monkeypatch):
    path.write_bytes(whole)
    monkeypatch.setenv("ZSLEARN_MAX_BYTES", "1000")
    with pytest.raises(FileLimitError, match=r"model\.zsl: .*ZSLEARN_MAX_BYTES"):
        persistence.load(path)


def test_a_newer_format_says_so(path, parts):
    def newer(content):
        content.update(format_version=7, library_version="3.1.0", surprise=1)

    said = refused(path, changed(parts, newer), describes=True)
    assert "saved by zslearn 3.1.0 in version 7 of the format" in said
    assert "Update zslearn" in said


def test_classes_that_lack_a_view_need_a_method_that_compares_common_views(folder, path):
    data = problem()
    both = {"a": data.signatures.iloc[:, :2], "b": data.signatures.iloc[:, 2:]}
    for method, accepts in ((ESZSL(), False), (GaussianEXEM(n_components=4), True)):
        model = method.fit(data.X_train, data.y_train, signatures=MultiSignatures(both))
        persistence.save(model, folder / "views.zsl")
        parts = take_apart((folder / "views.zsl").read_bytes())
        expected = both["b"].loc[model.classes_].to_numpy()
        (name,) = (
            name
            for name, said in parts.table.items()
            if said["shape"] == list(expected.shape) and np.allclose(parts.array(name), expected)
        )
        # The last class: only the first three are synthesised to check a file.
        lacking = parts.array(name)
        lacking[np.flatnonzero(np.isin(model.classes_, model.seen_classes_))[-1]] = np.nan
        file = put_together(parts.with_array(name, lacking))
        if accepts:
            path.write_bytes(file)
            assert persistence.load(path).classes_.tolist() == model.classes_.tolist()
        else:
            assert "ESZSL needs every view of each class" in refused(path, file)


@pytest.mark.parametrize("version", [1, 2])
def test_an_older_format_says_so(version, path, parts):
    """The first format had the digest of the whole file, at a fixed place of the header."""
    text = json.dumps({**parts.content, "format_version": version, "library_version": "0.9.0"})
    said = refused(path, put_together(parts, text=text), describes=True)
    assert f"saved by zslearn 0.9.0 in version {version} of the format" in said
    assert "save the model again with this version" in said


def test_a_newer_library_says_so(path, parts):
    path.write_bytes(changed(parts, lambda c: c.update(library_version="99.0")))
    with pytest.warns(InputWarning, match=r"model\.zsl was saved by zslearn 99\.0, which is newer"):
        persistence.load(path)


def test_a_hyper_parameter_that_is_not_there_takes_its_default(path, parts, folder):
    file = changed(parts, lambda c: c["model"]["parameters"].pop("alpha_features"))
    path.write_bytes(file)
    assert persistence.load(path).alpha_features == ESZSL().alpha_features
    file = changed(parts, lambda c: c["model"]["state"]["_described"]["state"].pop("parameters"))
    assert "missing 1 required positional argument" in refused(path, file)
    wrapper = take_apart(_file(CalibratedStacking(ESZSL(), bias=1.0), folder, "wrapper.zsl"))
    file = changed(wrapper, lambda c: c["model"]["parameters"].pop("estimator"))
    assert "lacks the hyper-parameter estimator" in refused(path, file)


def test_parts_of_another_scikit_learn_are_named(path, folder):
    parts = take_apart(_file(EXEM(n_components=2, regressor="gp"), folder, "gp.zsl"))
    assert parts.content["scikit_learn_version"] == sklearn.__version__
    path.write_bytes(changed(parts, lambda c: c.update(scikit_learn_version="0.19.1")))
    with pytest.warns(InputWarning, match=r"scikit-learn 0\.19\.1"):
        persistence.load(path)
