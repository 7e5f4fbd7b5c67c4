from __future__ import annotations

import os
import unicodedata

import pytest

from zslearn.base import InputWarning
from zslearn.images import list_images


def touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def test_class_folders(tmp_path):
    touch(tmp_path, "b/2.JPG", "b/deep/er/1.png", "a/x.webp", "a/notes.txt", "a/.hidden.png")
    touch(tmp_path, ".cache/x.png", "README.md")
    listed = list_images(tmp_path)
    assert listed.names == ("a/x.webp", "b/2.JPG", "b/deep/er/1.png")
    assert listed.labels.tolist() == ["a", "b", "b"]
    assert all(path.is_file() for path in listed.files)


def test_images_outside_class_folders_have_no_labels(tmp_path):
    touch(tmp_path, "1.png", "2.png")
    assert list_images(tmp_path).labels is None
    assert list_images(str(tmp_path / "1.png")).names == (str(tmp_path / "1.png"),)


def test_an_empty_class_folder_is_skipped_with_a_warning(tmp_path):
    touch(tmp_path, "a/1.png", "b/notes.txt")
    with pytest.warns(InputWarning, match="skipped 'b', which hold no images"):
        assert list_images(tmp_path).labels.tolist() == ["a"]


@pytest.mark.parametrize("names", [[], ["a/notes.txt"], ["notes.txt"]])
def test_folders_without_images_are_refused(tmp_path, names):
    touch(tmp_path, *names)
    with pytest.raises(ValueError, match=r"there are no images. Give a folder with one folder"):
        list_images(tmp_path)


def test_images_beside_class_folders_are_refused(tmp_path):
    touch(tmp_path, "a/1.png", "2.png")
    with pytest.raises(
        ValueError, match=r"mixes images, such as '2.png', with class folders, such as 'a'"
    ):
        list_images(tmp_path)


def test_unicode_forms_of_folder_names(tmp_path):
    touch(tmp_path, unicodedata.normalize("NFD", "é") + "/1.png")
    assert list_images(tmp_path).labels.tolist() == ["é"]
    touch(tmp_path, unicodedata.normalize("NFC", "é") + "/2.png")
    with pytest.raises(ValueError, match="have different code points"):
        list_images(tmp_path)


def table(tmp_path, text):
    path = tmp_path / "list.csv"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", [b"a\xff.png", b"c\xff/1.png"])
def test_names_that_are_not_utf8_are_refused(tmp_path, name):
    path = os.path.join(os.fsencode(tmp_path), name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        with open(path, "wb"):
            pass
    except OSError:
        pytest.skip("the file system rejects such names")
    for images in (tmp_path, [os.fsdecode(path)]):
        with pytest.raises(ValueError, match=r"udcff.* not UTF-8 .*rename"):
            list_images(images)


def test_tables_of_paths_and_labels(tmp_path):
    listed = list_images(table(tmp_path, "Label, PATH ,other\ncat,x/1.png,7\n'dog', 2.png ,\n"))
    assert listed.names == ("x/1.png", "2.png")
    assert listed.labels.tolist() == ["cat", "'dog'"]
    assert listed.files[0] == tmp_path / "x" / "1.png"
    assert list_images(table(tmp_path, "path\n1.png\n")).labels is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("path,label\n", "the table has no rows"),
        ("file,label\n1.png,a\n", "there is no column 'path'.*contains 'file', 'label'"),
        ("path,label\n1.png,a\n./1.png,a\n", "names .*1.png' more than once"),
        ("path,label\n1.png,a\n2.png,\n", "line 3 has no label, but others do"),
        ("path,label\n,a\n", "line 2 has no path"),
        ("path,label\n1.png\n", "line 2 has 1 fields, but the first line has 2"),
        ("path,label,path\n1,a,2\n", "the column 'path' occurs twice"),
        ('path,label\n"1.png,a\n', "cannot be read"),
    ],
)
def test_invalid_tables(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        list_images(table(tmp_path, text))


def test_lists_of_paths(tmp_path):
    listed = list_images(["a.png", "b.png"], ["cat", "dog"])
    assert listed.labels.tolist() == ["cat", "dog"]
    with pytest.raises(ValueError, match="1 labels for 2 images"):
        list_images(["a.png", "b.png"], ["cat"])
    with pytest.raises(ValueError, match="'a.png' more than once"):
        list_images(["a.png", "a.png"])
    with pytest.raises(ValueError, match="the list of paths is empty"):
        list_images([])
    with pytest.raises(ValueError, match="labels= is only for image files"):
        list_images(tmp_path, ["cat"])
    with pytest.raises(FileNotFoundError, match="There is no folder, table or image"):
        list_images(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="is neither a folder of images"):
        list_images(__file__)


def test_bounding_boxes(tmp_path):
    touch(tmp_path, "a/1.png", "a/2.png")
    listed = list_images(tmp_path)
    boxes = tmp_path / "boxes.csv"
    boxes.write_text("path,x,y,width,height\na/2.png,1,2,3,4\na/1.png,0,0,5.5,6\n")
    assert listed.with_boxes(boxes).boxes == ((0, 0, 5.5, 6), (1, 2, 3, 4))
    boxes.write_text("path,x,y,width,height\na/2.png,1,2,3,4\n")
    with pytest.raises(ValueError, match=r"no box for 1 of 2 images, such as 'a/1.png'"):
        listed.with_boxes(boxes)


@pytest.mark.parametrize("row", ["1,2,0,4", "1,2,-3,4", "nan,2,3,4", "1,2,inf,4", "1,b,3,4"])
def test_invalid_boxes(tmp_path, row):
    boxes = tmp_path / "boxes.csv"
    boxes.write_text(f"path,x,y,width,height\nx.png,{row}\n")
    with pytest.raises(ValueError, match="line 2 is not a box"):
        list_images(["x.png"]).with_boxes(boxes)
