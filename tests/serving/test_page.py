"""The service's page in a real browser."""

from __future__ import annotations

import shutil
import sys

import pytest

from service_tools import running, save_color_model, save_feature_model
from small_images import COLORS, tiny_open_clip, tiny_timm, write_image
from zslearn.serving import create_app

pytest.importorskip("fastapi")
pytest.importorskip("torch")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
if CHROMIUM is None:
    pytest.skip("there is no Chromium", allow_module_level=True)

pytestmark = pytest.mark.slow
# As long as other waits: a machine may be busy.
sync_api.expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Models of colours, described by attributes and in words."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "timm", tiny_timm())
        patch.setitem(sys.modules, "open_clip", tiny_open_clip())
        yield {
            kind: save_color_model(tmp_path_factory.mktemp(kind), in_words=kind == "words")
            for kind in ("words", "attributes")
        }


@pytest.fixture
def pictures(tmp_path):
    names = ("magenta", "red", "green")
    return [write_image(tmp_path / f"{name}.png", COLORS[name], seed=9) for name in names]


@pytest.fixture
def open_page(browser, models, tmp_path):
    """Serve a model and open its page; at the end nothing may have gone wrong in it."""
    contexts, problems, servers = [], [], []

    def open_it(kind="attributes", *, path=None, width=1280, scheme="light", token=None, errors=()):
        if path is None:
            path = shutil.copy(models[kind], tmp_path / "model.zsl")
        server = running(create_app(path, token=token))
        servers.append(server)
        address = server.__enter__()
        context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, reduced_motion="reduce"
        )
        context.set_default_timeout(20_000)
        contexts.append(context)
        tab = context.new_page()
        tab.on(
            "console",
            lambda m: (
                problems.append(m.text)
                if m.type == "error" and not any(error in m.text for error in errors)
                else None
            ),
        )
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tab.on(
            "request",
            lambda r: (
                None if r.url.startswith((address, "data:", "blob:")) else problems.append(r.url)
            ),
        )
        tab.goto(address)
        if token is None:
            tab.locator("#main").wait_for()
        return tab

    yield open_it
    for context in contexts:
        context.close()
    for server in servers:
        server.__exit__(None, None, None)
    assert problems == []


def show(tab, pictures):
    tab.locator("#files").set_input_files([str(path) for path in pictures])
    tab.get_by_text(f"{len(pictures)} pictures", exact=True).wait_for()


def best(tab):
    return tab.locator(".card .best").all_inner_texts()


def test_a_class_in_words_changes_a_prediction(open_page, pictures):
    tab = open_page("words")
    show(tab, pictures)
    before = best(tab)
    assert before[1:] == ["red", "green"]
    assert before[0] != "magenta"
    assert not tab.locator("#sliders").is_visible()
    tab.get_by_label("Name").fill("magenta")
    tab.get_by_label("In words").fill("a magenta picture")
    tab.get_by_text("It would take 1 of 3 pictures: magenta.png.").wait_for()
    assert tab.locator(".card.taken").count() == 1
    assert best(tab) == before  # nothing is kept yet
    tab.get_by_role("button", name="Add the class").press("Enter")
    tab.get_by_text("Added magenta. It took 1 of 3 pictures.").wait_for()
    assert best(tab) == ["magenta", "red", "green"]
    assert tab.locator(".card .mark").first.inner_text() == "described only, added"
    # It is explained, and still there on another page.
    tab.locator(".card summary").first.click()
    tab.get_by_text("magenta was made from").wait_for()
    tab.reload()
    tab.get_by_role("button", name="Remove magenta").click()
    tab.get_by_text("Removed magenta.").wait_for()
    assert "0 added here" in tab.locator("#classes-count").inner_text()


def test_a_class_by_sliders_changes_a_prediction(open_page, pictures):
    tab = open_page()
    show(tab, pictures)
    assert best(tab)[0] != "magenta"
    tab.get_by_label("Name").fill("magenta")
    tab.get_by_label("Begin with a copy of").fill("red")
    tab.get_by_text("It would take").wait_for()
    blue = tab.get_by_role("slider", name="blue")
    blue.focus()
    for key in ("Home", "End"):
        tab.keyboard.press(key)
    tab.get_by_text("It would take 1 of 3 pictures: magenta.png.").wait_for()
    tab.get_by_role("button", name="Add the class").click()
    tab.get_by_text("Added magenta. It took 1 of 3 pictures.").wait_for()
    assert best(tab)[0] == "magenta"


def test_refusals_are_shown(open_page, tmp_path):
    tab = open_page(errors=("422", "409"))
    damaged = tmp_path / "damaged.png"
    damaged.write_bytes(b"no picture")
    tab.locator("#files").set_input_files([str(damaged)])
    tab.get_by_text("no image of a known kind").wait_for()
    tab.get_by_role("button", name="Add the class").click()
    tab.get_by_text("Give the class a name.").wait_for()
    tab.get_by_label("Name").fill("red")
    tab.get_by_role("button", name="Add the class").click()
    tab.get_by_text("Every attribute is 0").wait_for()
    tab.get_by_label("Begin with a copy of").fill("red")
    sync_api.expect(tab.locator("#attribute-3")).not_to_have_value("0")
    tab.get_by_role("button", name="Add the class").click()
    tab.get_by_text("There is a class 'red' already").wait_for()


def test_dropped_pictures_and_the_keyboard(open_page):
    tab = open_page()
    # A picture as a person drops it.
    tab.evaluate(
        """async () => {
          const canvas = Object.assign(document.createElement("canvas"), {width: 16, height: 16});
          const paint = canvas.getContext("2d");
          paint.fillStyle = "rgb(20, 200, 40)";
          paint.fillRect(0, 0, 16, 16);
          const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
          const carried = new DataTransfer();
          carried.items.add(new File([blob], "dropped.png", {type: "image/png"}));
          const options = {dataTransfer: carried, bubbles: true, cancelable: true};
          document.getElementById("drop").dispatchEvent(new DragEvent("drop", options));
        }"""
    )
    tab.get_by_text("1 picture", exact=True).wait_for()
    assert best(tab) == ["green"]
    # By the keyboard alone: the first stop skips to the pictures, the next opens the chooser.
    tab.reload()
    tab.locator("#main").wait_for()
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.className") == "skip"
    tab.keyboard.press("Enter")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.id") == "files"
    # The click opens the chooser; whether Chromium reports the dialog in time is its own affair.
    tab.evaluate(
        """document.getElementById("files").addEventListener("click", (event) => {
          event.preventDefault();
          window.chooserAsked = event.isTrusted;
        })"""
    )
    tab.keyboard.press("Space")
    tab.wait_for_function("window.chooserAsked === true")


NAMES = ("<script>window.hurt = 1</script>", "<img src=x onerror='window.hurt = 1'>", "x" * 200)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (360, "light")])
def test_names_stay_text_in_any_width_and_scheme(open_page, pictures, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    tab = open_page(width=width, scheme=scheme)
    show(tab, pictures)
    # Once, for it stays: a copy that comes later would clear the message of what was added.
    tab.get_by_label("Begin with a copy of").fill("red")
    tab.get_by_text("It would take").wait_for()
    for name in NAMES:
        tab.get_by_label("Name").fill(name)
        tab.get_by_role("button", name="Add the class").click()
        tab.get_by_text(f"Added {name}").wait_for()
    tab.locator(".card summary").first.click()
    tab.locator(".card .why").first.wait_for()
    assert tab.evaluate("window.hurt") is None
    assert NAMES[0] in tab.locator("#classes .label").all_inner_texts()
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    found = axe.Axe().run(tab).response["violations"]
    serious = [v for v in found if v["impact"] in ("serious", "critical")]
    assert not serious, [(v["id"], [n["html"] for n in v["nodes"]]) for v in serious]


def test_a_model_of_features_says_so(open_page, problem, tmp_path):
    tab = open_page(path=save_feature_model(problem, tmp_path / "features.zsl"))
    tab.get_by_text("This model takes feature vectors (20 numbers each), not pictures").wait_for()
    assert not tab.locator("#drop").is_visible()
    tab.get_by_label("Name").fill("new")
    tab.get_by_label("Begin with a copy of").fill("class 01")
    sync_api.expect(tab.locator("#attribute-0")).not_to_have_value("0")
    tab.get_by_role("button", name="Add the class").click()
    tab.get_by_text("Added new.").wait_for()


def test_the_page_asks_for_the_token(open_page, pictures):
    token = "0123456789abcdef"
    tab = open_page(token=token, errors=("401",))
    field = tab.get_by_role("textbox", name="Token")
    field.fill("another")
    tab.get_by_role("button", name="Use it").click()
    tab.get_by_text("This is not the token.").wait_for()
    field.fill(token)
    field.press("Enter")
    tab.locator("#main").wait_for()
    show(tab, pictures)
    assert best(tab)[1:] == ["red", "green"]
