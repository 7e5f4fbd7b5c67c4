import pytest


@pytest.fixture(scope="session")
def glyphs_home(tmp_path_factory):
    """A cache folder that the session fills once."""
    return tmp_path_factory.mktemp("glyphs")


@pytest.fixture(scope="session")
def glyphs(glyphs_home):
    pytest.importorskip("matplotlib", reason="the glyphs are rendered from matplotlib's fonts")
    from zslearn.datasets import load_glyphs

    return load_glyphs(data_home=glyphs_home)
