"""The web page of the service, in Chromium."""

from __future__ import annotations

import shutil
import sys
from threading import Event

import pytest

from service_tools import save_color_model, save_feature_model
from small_images import COLORS, tiny_open_clip, tiny_timm, write_image
from zslearn.datasets import make_zero_shot
from zslearn.serving import Limits
from zslearn.synthesis import GaussianEXEM

pytest.importorskip("torch")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")

pytestmark = pytest.mark.slow
# A busy machine may be slow.
sync_api.expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Models of colours, described by attributes or by text."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "timm", tiny_timm())
        patch.setitem(sys.modules, "open_clip", tiny_open_clip())
        yield {
            kind: save_color_model(
                tmp_path_factory.mktemp(kind), in_words=kind == "words", learns=kind == "learns"
            )
            for kind in ("words", "attributes", "learns")
        }


@pytest.fixture
def pictures(tmp_path):
    names = ("magenta", "red", "green")
    return [write_image(tmp_path / f"{name}.png", COLORS[name], seed=9) for name in names]


@pytest.fixture
def open_page(open_page, models, tmp_path):
    """Serve one of the models, or that of a path, and open its page."""

    def open_it(kind="attributes", *, path=None, **options):
        if path is None:
            path = shutil.copy(models[kind], tmp_path / "model.zsl")
        if kind == "learns":
            options["pictures"] = models[kind].parent / "images"
        return open_page(path, **options)

    return open_it


def show(tab, pictures):
    tab.locator("#files").set_input_files([str(path) for path in pictures])
    tab.get_by_text(f"{len(pictures)} pictures", exact=True).wait_for()


def best(tab):
    return tab.locator(".card .best").all_inner_texts()


def test_a_class_described_by_text(open_page, pictures):
    tab = open_page("words")
    show(tab, pictures)
    before = best(tab)
    assert before[1:] == ["red", "green"]
    assert before[0] != "magenta"
    assert not tab.locator("#sliders").is_visible()
    # The hint is a text of the model.
    assert tab.get_by_label("Description").get_attribute("placeholder") == "a red picture"
    tab.get_by_label("Name").fill("magenta")
    tab.get_by_label("Description").fill("a magenta picture")
    tab.get_by_text("Matches 1 of 3 pictures.").wait_for()
    assert tab.locator(".card.matching").count() == 1
    assert tab.locator("#trial-thumbs img").get_attribute("alt") == "magenta.png"
    assert best(tab) == before  # the class is not added yet
    tab.get_by_role("button", name="Add class").press("Enter")
    tab.get_by_text("Added magenta. Matches 1 of 3 pictures.").wait_for()
    assert best(tab) == ["magenta", "red", "green"]
    assert tab.locator(".card .mark").first.inner_text() == "added here"
    # It can be explained, and is still there after a reload.
    tab.locator(".card summary").first.click()
    tab.get_by_text("magenta is built from").wait_for()
    tab.reload()
    tab.get_by_role("button", name="Remove magenta").click()
    tab.get_by_text("Removed magenta.").wait_for()
    assert "0 added here" in tab.locator("#classes-count").inner_text()


def test_a_class_described_by_sliders(open_page, pictures):
    tab = open_page()
    show(tab, pictures)
    assert best(tab)[0] != "magenta"
    tab.get_by_label("Name").fill("magenta")
    tab.get_by_label("Start from").fill("red")
    tab.locator("#trial").wait_for()
    blue = tab.get_by_role("slider", name="blue")
    blue.focus()
    for key in ("Home", "End"):
        tab.keyboard.press(key)
    tab.get_by_text("Matches 1 of 3 pictures.").wait_for()
    tab.get_by_role("button", name="Add class").click()
    tab.get_by_text("Added magenta. Matches 1 of 3 pictures.").wait_for()
    assert best(tab)[0] == "magenta"


def test_hints_and_errors(open_page, tmp_path):
    tab = open_page(errors=("422", "409"))
    damaged = tmp_path / "damaged.png"
    damaged.write_bytes(b"no picture")
    tab.locator("#files").set_input_files([str(damaged)])
    tab.get_by_text("Not a picture", exact=True).wait_for()
    tab.get_by_text("Supported formats are").wait_for()
    assert "damaged.png" in tab.locator(".card").inner_text()
    tab.get_by_role("button", name="Add class").click()
    tab.get_by_text("Enter a name for the class.").wait_for()
    tab.get_by_label("Name").fill("Red")
    tab.get_by_text("The existing class “red” differs only in capital letters.").wait_for()
    tab.get_by_label("Name").fill("red")
    tab.get_by_text("This class already exists. Choose another name.").wait_for()
    tab.get_by_role("button", name="Add class").click()
    tab.get_by_text("All attributes are 0").wait_for()
    like = tab.get_by_label("Start from")
    like.fill("rad")
    like.press("Tab")
    tab.get_by_text("There is no class “rad”.").wait_for()
    like.fill("red")
    sync_api.expect(tab.locator("#like-note")).to_be_empty()
    sync_api.expect(tab.locator("#attribute-0")).not_to_have_value("0")
    tab.get_by_role("button", name="Add class").click()
    tab.get_by_text("The class 'red' already exists; choose another name.").wait_for()
    tab.get_by_label("Name").fill("scarlet")
    tab.get_by_role("button", name="Add class").click()
    tab.get_by_text(
        "Added scarlet. It has the same description as “red”, which has training pictures, "
        "so the model cannot tell them apart."
    ).wait_for()
    tab.get_by_label("Name").fill("scarlet")
    tab.get_by_text("Remove it below").wait_for()
    tab.get_by_label("Name").fill("RED")
    tab.get_by_text("differs only in capital letters.").wait_for()
    tab.get_by_role("button", name="Add class").click()
    tab.get_by_text("Added RED.").wait_for()
    sync_api.expect(tab.locator("#name-note")).to_be_empty()


def test_dropped_pictures_and_the_keyboard(open_page):
    tab = open_page()
    # Drop a picture.
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
    # With the keyboard, the first stop skips to the pictures and the next opens the file dialog.
    tab.reload()
    tab.locator("#main").wait_for()
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.className") == "skip"
    tab.keyboard.press("Enter")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.id") == "files"
    # The click is tested, not the dialog, which Chromium may report late.
    tab.evaluate(
        """document.getElementById("files").addEventListener("click", (event) => {
          event.preventDefault();
          window.dialogRequested = event.isTrusted;
        })"""
    )
    tab.keyboard.press("Space")
    tab.wait_for_function("window.dialogRequested === true")


NAMES = ("<script>window.hurt = 1</script>", "<img src=x onerror='window.hurt = 1'>", "x" * 200)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (360, "light")])
def test_names_stay_text_and_the_page_is_accessible(open_page, pictures, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    tab = open_page("learns", width=width, scheme=scheme)
    show(tab, pictures)
    tab.locator(".ranked button").nth(1).click()
    tab.get_by_text("Learned that it is").wait_for()
    tab.get_by_role("button", name="Learn from these pictures").click()
    tab.get_by_role("button", name="Discard").wait_for()
    # Copied once, since copying clears the message about the added class.
    tab.get_by_label("Start from").fill("red")
    tab.locator("#trial").wait_for()
    for name in NAMES:
        tab.get_by_label("Name").fill(name)
        tab.get_by_role("button", name="Add class").click()
        tab.get_by_text(f"Added {name}").wait_for()
    tab.locator(".card summary").first.click()
    tab.locator(".card .why").first.wait_for()
    assert tab.evaluate("window.hurt") is None
    assert NAMES[0] in tab.locator("#classes .label").all_inner_texts()
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    found = axe.Axe().run(tab).response["violations"]
    serious = [v for v in found if v["impact"] in ("serious", "critical")]
    assert not serious, [(v["id"], [n["html"] for n in v["nodes"]]) for v in serious]


def test_a_model_without_a_known_network(open_page, problem, tmp_path):
    tab = open_page(path=save_feature_model(problem, tmp_path / "features.zsl"))
    tab.get_by_text("This model accepts feature vectors (20 numbers each), not pictures").wait_for()
    assert not tab.locator("#drop").is_visible()
    tab.get_by_label("Name").fill("new")
    tab.get_by_label("Start from").fill("class 01")
    sync_api.expect(tab.locator("#attribute-0")).not_to_have_value("0")
    tab.get_by_role("button", name="Add class").click()
    tab.get_by_text("Added new.").wait_for()


def test_the_page_asks_for_the_token(open_page, pictures):
    token = "0123456789abcdef"
    tab = open_page(token=token, errors=("401",))
    field = tab.get_by_role("textbox", name="Token")
    field.fill("another")
    tab.get_by_role("button", name="Continue").click()
    tab.get_by_text("This token is not valid.").wait_for()
    field.fill(token)
    field.press("Enter")
    tab.locator("#main").wait_for()
    show(tab, pictures)
    assert best(tab)[1:] == ["red", "green"]


def test_predictions_are_corrected(open_page, pictures, tmp_path):
    second = write_image(tmp_path / "magenta 2.png", COLORS["magenta"], seed=10)
    tab = open_page("learns")
    show(tab, [*pictures, second])
    before = best(tab)
    assert before[1:3] == ["red", "green"]
    card = tab.locator(".card").nth(1)
    card.get_by_role("button", name="yellow").click()
    tab.get_by_text("Learned that it is “yellow”.").wait_for()
    assert best(tab)[1] == "yellow"
    assert "Your correction" in card.locator(".corrected").inner_text()
    assert tab.locator("#corrections img").get_attribute("alt") == "red.png"
    # Another correction replaces the first one.
    card.get_by_label("Correct class of red.png").fill("cyan")
    card.get_by_label("Correct class of red.png").press("Enter")
    tab.get_by_text("Learned that it is “cyan”.").wait_for()
    assert tab.locator("#corrections li").count() == 1
    card.get_by_role("button", name="Undo").click()
    tab.get_by_text("Correction undone.").wait_for()
    assert best(tab) == before
    assert not tab.locator("#corrections-part").is_visible()
    # The picture becomes an example of a new class, which the similar one then matches.
    tab.locator(".card").first.get_by_role("button", name="New class").click()
    assert tab.locator("#for-picture").is_visible()
    tab.get_by_label("Name", exact=True).fill("magenta")
    tab.get_by_role("button", name="Add class").click()
    tab.get_by_text("Added magenta. Matches 2 of 4 pictures.").wait_for()
    assert best(tab) == ["magenta", "red", "green", "magenta"]
    assert tab.locator(".card").nth(3).locator(".was").inner_text() == f"was: {before[3]}"
    # It can still be undone after a reload.
    tab.reload()
    tab.get_by_role("button", name="Undo magenta for magenta.png").click()
    tab.get_by_text("Correction undone.").wait_for()
    assert not tab.locator("#corrections-part").is_visible()


def test_a_late_response_makes_one_correction(open_page, pictures, monkeypatch):
    go_on, add_examples = Event(), GaussianEXEM.add_examples

    def slow(*arguments, **options):
        go_on.wait(60)
        return add_examples(*arguments, **options)

    monkeypatch.setattr(GaussianEXEM, "add_examples", slow)
    tab = open_page("learns", limits=Limits(seconds=2.0), errors=["503"])
    show(tab, pictures)
    card = tab.locator(".card").nth(1)
    with tab.expect_response(lambda answer: "examples?" in answer.url) as late:
        card.get_by_role("button", name="yellow").click()
    assert late.value.status == 503
    go_on.set()
    tab.get_by_text("Learned that it is “yellow”.").wait_for()
    assert tab.locator("#corrections li").count() == 1


def test_adapting_is_previewed_and_undone(open_page, pictures):
    tab = open_page("learns")
    show(tab, pictures)
    tab.get_by_role("button", name="Learn from these pictures").click()
    tab.get_by_text("of 3 pictures would change class.").wait_for()
    tab.get_by_role("button", name="Discard").click()
    sync_api.expect(tab.locator("#learned")).to_be_hidden()
    tab.get_by_role("button", name="Learn from these pictures").click()
    tab.get_by_role("button", name="Accept").click()
    tab.get_by_text("The model has adapted to 3 unlabelled pictures.").wait_for()
    tab.reload()
    tab.get_by_text("The model has adapted to 3 unlabelled pictures.").wait_for()
    tab.locator("#forget").click()
    sync_api.expect(tab.locator("#learned")).to_be_hidden()


@pytest.mark.parametrize("width", [1280, 390])
def test_pictures_to_label_next(open_page, pictures, width):
    tab = open_page("learns", width=width)
    assert not tab.locator("#next-part").is_visible()
    show(tab, pictures)
    suggested = tab.locator("#next button")
    sync_api.expect(suggested).to_have_count(3)
    for one in suggested.all():
        box = one.bounding_box()
        assert box["width"] >= 44
        assert box["height"] >= 44
        assert one.locator("img").evaluate("image => image.decode().then(() => true)")
    # A click leads to the picture, whose class is then given.
    first = suggested.first.get_attribute("aria-label")
    name = first.removeprefix("Label ").partition(",")[0]
    suggested.first.click()
    card = tab.locator(".card", has_text=name)
    sync_api.expect(card).to_be_in_viewport()
    sync_api.expect(card.locator(".ranked button").first).to_be_focused()
    card.locator(".ranked button").first.press("Enter")
    tab.get_by_text("Learned that it is").wait_for()
    sync_api.expect(suggested).to_have_count(2)
    labels = [one.get_attribute("aria-label") for one in suggested.all()]
    assert not any(label.startswith(f"Label {name},") for label in labels)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.get_by_role("button", name="Remove all").click()
    sync_api.expect(tab.locator("#next-part")).to_be_hidden()


def test_thumbnails_of_corrections_stay_in_the_browser(open_page, pictures):
    tab = open_page("learns")
    show(tab, pictures)
    tab.get_by_label("Correct class of magenta.png").fill("yellow")
    tab.get_by_label("Correct class of magenta.png").press("Enter")
    tab.get_by_text("Learned that it is “yellow”.").wait_for()
    tab.reload()
    kept = tab.locator("#corrections img")
    kept.wait_for()
    assert kept.get_attribute("alt") == "magenta.png"
    assert kept.evaluate("image => image.decode().then(() => image.naturalWidth)") > 0
    tab.get_by_role("button", name="Undo yellow for magenta.png").click()
    sync_api.expect(tab.locator("#corrections-part")).to_be_hidden()
    assert tab.evaluate("localStorage.length") == 0


def test_targets_are_large_enough_for_fingers(open_page, pictures):
    tab = open_page("learns", width=390)
    show(tab, pictures)
    tab.get_by_role("button", name="Learn from these pictures").click()
    tab.get_by_text("of 3 pictures would change class.").wait_for()
    sizes = tab.evaluate(
        """() => [...document.querySelectorAll("button, summary, input:not(.file), .bar a")]
          .filter((one) => one.offsetParent !== null)
          .map((one) => [one.id || one.textContent, one.getBoundingClientRect().height,
                         one.matches("input") ? parseFloat(getComputedStyle(one).fontSize) : 16])"""
    )
    assert len(sizes) > 10
    assert [size for size in sizes if size[1] < 44 or size[2] < 16] == []
    assert "0.0 %" not in tab.locator(".value").all_inner_texts()
    assert tab.locator(".card .file-name").all_inner_texts() == [p.name for p in pictures]


def test_methods_that_do_not_learn_have_no_controls_for_it(open_page, pictures):
    tab = open_page()
    tab.get_by_text("The model recognises 5 classes").wait_for()
    assert not tab.locator("#try-samples").is_visible()
    show(tab, pictures)
    for control in (".correct", "#learn", "#corrections-part", "#next-part", "#empty"):
        assert not tab.locator(control).first.is_visible()
    assert tab.locator(".ranked button").count() == 0


def test_sample_and_nearest_pictures(open_page):
    tab = open_page("learns")
    sync_api.expect(tab.locator("#samples img")).to_have_count(5)
    tab.get_by_role("button", name="Try these pictures").click()
    tab.get_by_text("5 pictures", exact=True).wait_for()
    assert best(tab) == ["blue", "cyan", "green", "red", "yellow"]
    tab.locator(".card summary").first.click()
    near = tab.locator(".near img")
    sync_api.expect(near).to_have_count(3)
    tab.wait_for_function(
        "() => [...document.querySelectorAll('.near img')].every((i) => i.naturalWidth > 0)"
    )
    assert near.first.get_attribute("alt").startswith("blue/")


@pytest.mark.parametrize("width", [1280, 390])
def test_matching_pictures_stay_in_view(open_page, pictures, width):
    tab = open_page(width=width)
    show(tab, [*reversed(pictures)])
    tab.get_by_label("Name").fill("magenta")
    tab.get_by_label("Start from").fill("red")
    tab.get_by_text("It has the same description as “red”").wait_for()
    blue = tab.get_by_role("slider", name="blue")
    for key in ("Home", "End"):
        blue.press(key)
    tab.get_by_text("Matches 1 of 3 pictures.", exact=True).wait_for()
    boxes = [card.bounding_box() for card in tab.locator(".card").all()]
    first = min(boxes, key=lambda box: (box["y"], box["x"]))
    assert boxes[2] == first  # it was the last one
    if width == 390:
        assert tab.locator("#bar-words").inner_text() == "Matches 1 of 3"
        assert tab.locator("#bar-thumbs img").count() == 1
        tab.evaluate("scrollTo(0, 0)")
        assert tab.locator("#bar").bounding_box()["y"] < 800
        tab.get_by_role("link", name="Describe").click()
        sync_api.expect(tab.locator("#name")).to_be_in_viewport()
    else:
        assert not tab.locator("#bar").is_visible()
        tab.evaluate("document.querySelector('#results').style.paddingBottom = '2000px'")
        tab.evaluate("scrollTo(0, 1500)")
        sync_api.expect(tab.locator("#trial")).to_be_in_viewport()
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_binary_attributes_and_long_lists(open_page, tmp_path):
    data = make_zero_shot(n_attributes=40, random_state=0)
    data.signatures.iloc[:, 0] = (data.signatures.iloc[:, 0] > 0).astype(float)
    tab = open_page(path=save_feature_model(data, tmp_path / "long.zsl"))
    assert tab.get_by_role("checkbox", name="attribute 0", exact=True).count() == 1
    assert tab.get_by_role("slider", name="attribute 1", exact=True).count() == 1
    cue = tab.locator("#sliders + .more")
    sync_api.expect(cue).to_contain_text("more")
    tab.locator("#sliders").evaluate("list => list.scrollTo(0, list.scrollHeight)")
    sync_api.expect(cue).to_be_empty()
    tab.get_by_label("Start from").fill("class 01")
    sync_api.expect(tab.locator("#attribute-1")).not_to_have_value("0")
    wanted = bool(data.signatures.loc["class 01"].iloc[0])
    assert tab.locator("#attribute-0").is_checked() == wanted
    tab.get_by_label("Filter attributes").fill("attribute 39")
    assert tab.locator("#shown").inner_text() == "1 of 40"
