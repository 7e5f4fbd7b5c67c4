"""The report in a real browser."""

from __future__ import annotations

import re

import numpy as np
import pytest

from report_records import HOSTILE, example_record, write_runs
from zslearn.experiments import write_record, write_report

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")

pytestmark = pytest.mark.slow
# As long as other waits: a machine may be busy.
sync_api.expect.set_options(timeout=60_000)
TABLE = "#results table"


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    """A report of classes with names that would do harm."""
    folder = tmp_path_factory.mktemp("report")
    write_runs(folder, n_methods=5, seeds=(0, 1), n_classes=40, hostile=True)
    return write_report(folder, folder / "report.html")


@pytest.fixture
def open_page(browser, page_file):
    """Open the report; at the end nothing may have gone wrong or been asked of a server."""
    contexts, problems = [], []

    def open_it(address="", *, width=1280, scheme="light"):
        window = {"width": width, "height": 800}
        context = browser.new_context(viewport=window, color_scheme=scheme)
        context.set_default_timeout(60_000)
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tab.on(
            "request",
            lambda r: None if r.url.startswith(("file:", "data:")) else problems.append(r.url),
        )
        tab.goto(page_file.as_uri() + address)
        return tab

    yield open_it
    for context in contexts:
        assert all(tab.evaluate("window.hurt") is None for tab in context.pages)
        context.close()
    assert problems == []


def column(tab, index):
    """The numbers or words of a column of the main table."""
    cells = tab.locator(f"{TABLE} tbody tr").evaluate_all(
        "(rows, i) => rows.map((row) => row.children[i].innerText.trim())", index
    )
    return [float(re.match(r"[\d.]+", cell)[0]) if index else cell for cell in cells]


def test_sorting_by_pointer_and_keyboard(open_page):
    tab = open_page()
    heads = tab.locator(f"{TABLE} thead th")
    assert tab.title() == "Zero-shot learning on CUB"
    # At first by the first number.
    assert heads.nth(1).get_attribute("aria-sort") == "descending"
    assert column(tab, 1) == sorted(column(tab, 1), reverse=True)
    area = heads.all_inner_texts().index("AUSUC")
    heads.nth(area).locator("button").click()
    assert heads.nth(area).get_attribute("aria-sort") == "descending"
    assert heads.nth(1).get_attribute("aria-sort") == "none"
    assert column(tab, area) == sorted(column(tab, area), reverse=True)
    heads.nth(1).locator("button").click()
    tab.keyboard.press("Enter")
    assert heads.nth(1).get_attribute("aria-sort") == "ascending"
    assert column(tab, 1) == sorted(column(tab, 1))
    assert "Sorted by accuracy, smallest first" in tab.locator("#live").inner_text()
    tab.keyboard.press("Shift+Tab")
    tab.keyboard.press("Space")
    names = column(tab, 0)
    assert heads.first.get_attribute("aria-sort") == "ascending"
    assert names == sorted(names, key=str.casefold)


def test_filtering_by_keyboard(open_page):
    tab = open_page()
    assert len(column(tab, 0)) == 5
    tab.keyboard.press("/")
    tab.keyboard.type("eszsl")
    assert column(tab, 0) == ["ESZSL"]
    assert "1 of 5 rows" in tab.locator("#live").inner_text()
    tab.keyboard.type("xyz")
    assert "Nothing matches" in tab.locator(TABLE).inner_text()


def test_curves_answer_to_hovering_and_to_the_arrow_keys(open_page):
    tab = open_page("#curves")
    chart, readout = tab.locator("#curves .plot"), tab.locator("#curves .readout")
    assert "factor 0.4" in readout.inner_text() or "factor 0.5" in readout.inner_text()
    assert "(calibrated)" in readout.inner_text()
    before = readout.inner_text()
    box = chart.bounding_box()
    tab.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 0.2 * box["height"])
    # Browsers tell of movements a frame later.
    sync_api.expect(readout).not_to_have_text(before)
    hovered = readout.inner_text()
    assert re.search(r"factor (−∞|−?[\d.]+).*unseen 0\.\d+, seen 0\.\d+", hovered)
    slider = tab.locator("#curves input[type=range]")
    slider.focus()
    at = int(slider.input_value())
    tab.keyboard.press("ArrowRight")
    assert int(slider.input_value()) == at + 1
    assert readout.inner_text() != hovered
    assert "factor" in slider.get_attribute("aria-valuetext")
    tab.keyboard.press("Home")
    assert "factor −∞" in readout.inner_text()
    # Another method by its name in the legend.
    legend = tab.locator("#curves .legend button")
    legend.last.focus()
    tab.keyboard.press("Enter")
    assert legend.last.get_attribute("aria-pressed") == "true"
    name = legend.last.locator("span").first.inner_text()
    assert readout.inner_text().startswith(name)


def test_drawings_can_be_saved(open_page, tmp_path):
    tab = open_page("#curves")
    for kind, beginning in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
        with tab.expect_download() as waiting:
            tab.locator("#curves .save button", has_text=kind).click()
        waiting.value.save_as(tmp_path / kind)
        assert (tmp_path / kind).read_bytes().startswith(beginning)
    assert b"stroke-dasharray" in (tmp_path / "SVG").read_bytes()


def test_names_of_classes_stay_text(open_page):
    tab = open_page("#classes")
    shown = tab.locator("#classes .tile .name").all_inner_texts()
    for name in HOSTILE[:6]:
        assert name in shown
    assert any("\\u202eright to left\\ud800" in name for name in shown)
    for name in HOSTILE[:6]:
        tab.locator("#classes .tile .name").get_by_text(name, exact=True).click()
        # The page changes a moment after the click.
        sync_api.expect(tab.locator("h1")).to_have_text(name)
        assert tab.locator(".examples img").count() == 1
        assert tab.locator("main script, main img[onerror]").count() == 0
        tab.reload()
        sync_api.expect(tab.locator("h1")).to_have_text(name)
        tab.locator(".crumb a").click()
        sync_api.expect(tab.locator("#classes")).to_have_count(1)


def test_the_policy_refuses_other_programs_and_servers(browser, page_file):
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(page_file.as_uri())
    refused = tab.evaluate(
        """async () => {
          const script = document.createElement("script");
          script.textContent = "window.hurt = 1";
          document.body.append(script);
          return fetch("https://example.org/").then(() => "answered", () => "refused");
        }"""
    )
    assert refused == "refused"
    assert tab.evaluate("window.hurt") is None
    context.close()


def test_pages_of_methods(open_page):
    tab = open_page()
    link = tab.locator(f"{TABLE} tbody a").first
    name = link.inner_text().strip()
    link.click()
    sync_api.expect(tab.locator("h1")).to_have_text(name)
    assert tab.evaluate("document.activeElement.tagName") == "H1"
    chosen = tab.locator(".heat .chosen")
    assert chosen.count() == 1
    assert "at-edge" in chosen.get_attribute("class")
    assert (
        "alpha = 10 is the largest value of its grid: try larger ones"
        in tab.locator(".edge").first.inner_text()
    )
    # The page changes a moment after the address.
    tab.go_back()
    sync_api.expect(tab.locator(TABLE)).to_have_count(1)
    # An address of nothing is the overview.
    tab.goto(tab.url.partition("#")[0] + f"#method/{name}")
    sync_api.expect(tab.locator(TABLE)).to_have_count(0)
    tab.goto(tab.url.partition("#")[0] + "#class/99/unknown")
    sync_api.expect(tab.locator(TABLE)).to_have_count(1)


def test_several_data_sets_and_a_failure(browser, tmp_path):
    for dataset in ("CUB", "SUN"):
        for method in ("ESZSL", "EXEM (1NN)"):
            for setting in ("zsl", "gzsl"):
                record = example_record(method, setting) | {"dataset": dataset}
                write_record(record, tmp_path / f"{dataset}-{method}-{setting}.json")
    failed = {"type": "ValueError", "reason": "<b>no</b>", "traceback": "…"}
    bad = example_record("ConSE", "zsl") | {"metrics": {}, "failed": failed}
    write_record(bad, tmp_path / "bad.json")
    context = browser.new_context()
    tab = context.new_page()
    problems = []
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.goto(write_report(tmp_path, tmp_path / "report.html").as_uri())
    before = tab.locator("#curves .readout").inner_text()
    tab.locator("#curves select").first.select_option(label="SUN")
    assert tab.locator("#curves .plot").get_attribute("aria-label").endswith("on SUN")
    assert tab.locator("#curves .readout").inner_text().startswith(before[:4])
    assert "failed: ValueError: <b>no</b>" in tab.locator("#runs").inner_text()
    # The paper's numbers can be put away.
    published = tab.locator(f"{TABLE} .paper")
    assert published.count() > 0
    tab.get_by_label("Published numbers", exact=True).uncheck()  # on PS2: no difference
    assert published.count() == 0
    # Curves of one method on two data sets are told apart.
    tab.goto(tab.url.partition("#")[0] + "#method/ESZSL")
    sync_api.expect(tab.locator(".legend button").first).to_contain_text("ESZSL, ")
    assert sorted(re.findall("CUB|SUN", tab.locator(".legend").inner_text())) == ["CUB", "SUN"]
    tab.goto(tab.url.partition("#")[0])
    tab.goto(tab.url + "#method/ConSE")
    sync_api.expect(tab.locator("h1")).to_have_text("ConSE")
    assert problems == []
    context.close()


def test_a_wide_table_fits_the_window(browser, tmp_path):
    """Two data sets, three seeds, long names, and published numbers: all columns can be seen."""
    birds = ["001.Black_footed_Albatross", "002.Laysan_Albatross", "004.Groove_billed_Ani", "x"]
    names = ("ESZSL", "EXEM (SynC struct)", "SynC o-vs-o (learned phantoms)")
    for dataset, features in (("CUB", "res101"), ("SUN", "efficientnet_lite0_mine")):
        for method in names:
            for setting in ("zsl", "gzsl"):
                for seed in (0, 1, 2):
                    record = example_record(method, setting, seed=seed, classes=birds, n_unseen=2)
                    record |= {"dataset": dataset, "features": features}
                    record["split_version"] = "xlsa17/PS1/0123abcd"
                    where = tmp_path / f"{dataset}-{names.index(method)}-{setting}-{seed}.json"
                    write_record(record, where)
    page = write_report(tmp_path, tmp_path / "report.html")
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    tab = context.new_page()
    tab.goto(page.as_uri())
    last = tab.locator(f"{TABLE} thead th").last
    assert last.inner_text() == "AUSUC"
    box = last.bounding_box()
    assert box["x"] + box["width"] <= 1280
    assert (
        tab.evaluate("(e => e.scrollWidth - e.clientWidth)(document.querySelector('.scroll'))") == 0
    )
    # The settings are folded, below the table; and the meanings are words.
    assert not tab.locator("#results .facts").is_visible()
    tab.get_by_text("Settings of the runs").click()
    assert "res101" in tab.locator("#results .facts").inner_text()
    assert tab.locator(".hero .facts").count() == 0
    tab.get_by_text("Columns", exact=True).click()
    assert "area under the seen–unseen curve" in tab.locator(".meanings").inner_text()
    assert "[object" not in tab.locator("main").inner_text()
    assert "Black footed Albatross" in tab.locator("#classes").inner_text()
    assert tab.get_by_label("Published numbers and differences").is_visible()
    # A method stays in view where the table is scrolled sideways.
    tab.set_viewport_size({"width": 390, "height": 800})
    name = tab.locator(f"{TABLE} tbody th").first
    before = name.bounding_box()["x"]
    tab.evaluate("document.querySelector('.scroll').scrollLeft = 300")
    assert name.bounding_box()["x"] == pytest.approx(before, abs=2)
    context.close()


def test_what_there_is_nothing_to_say_of_is_not_shown(browser, tmp_path):
    record = example_record("ESZSL", "zsl") | {"seed": None, "hyper_parameters": {}, "edges": {}}
    write_record(record, tmp_path / "x.json")
    answers = ("Two letters", [(np.zeros((8, 8), np.uint8), a, "é") for a in ("é", "<b>e</b>")])
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(write_report(tmp_path, tmp_path / "r.html", answers=answers).as_uri())
    assert tab.locator("#ranks").count() == 0
    assert "Ranks" not in tab.locator("#nav").inner_text()
    heads = tab.locator("#runs thead th").all_inner_texts()
    assert heads == ["Method", "Setting", "Tuned and fitted", "Measured"]
    assert tab.locator(".answers figcaption").all_inner_texts() == ["✓ é", "✗ <b>e</b>, is é"]
    assert "Two letters" in tab.locator(".hero").inner_text()
    context.close()


def test_light_dark_and_the_switch(open_page):
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = open_page(scheme="dark").evaluate(paper)
    tab = open_page(scheme="light")
    light = tab.evaluate(paper)
    assert light != dark
    tab.locator("#theme").click()
    tab.locator("#theme").click()
    assert tab.evaluate(paper) == dark
    assert "dark" in tab.locator("#theme").get_attribute("aria-label")


@pytest.mark.parametrize("address", ["", "#method/ESZSL", "#class/0/constructor"])
def test_nothing_overflows_a_telephone(open_page, address):
    tab = open_page(address, width=360)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
    # Nothing but what scrolls by itself is wider than the window.
    wide = tab.evaluate(
        """() => [...document.querySelectorAll("main *, header *, footer *")]
          .filter((node) => node.getBoundingClientRect().right > 361)
          .filter((node) => !node.closest(".scroll, nav, .unseen"))
          .map((node) => node.outerHTML.slice(0, 80))"""
    )
    assert wide == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("address", ["", "#method/ESZSL", "#class/0/constructor"])
def test_no_serious_fault_of_accessibility(open_page, address, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    tab = open_page(address, scheme=scheme)
    response = axe.run(tab).response
    # It did look: contrast is checked in the browser only.
    assert "color-contrast" in {found["id"] for found in response["passes"]}
    serious = [
        (found["id"], [node["html"][:160] for node in found["nodes"]][:3])
        for found in response["violations"]
        if found["impact"] in ("serious", "critical")
    ]
    assert serious == []
