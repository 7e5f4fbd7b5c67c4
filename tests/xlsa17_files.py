"""A small data set in the layout of xlsa17, written as MATLAB 5 or as HDF5 (7.3)."""

from __future__ import annotations

import numpy as np
from scipy.io import savemat

CLASSES = ["ant", "bee", "cat", "dog"]
N_PER_CLASS = 10


def features(n_features=5):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(1, 5), N_PER_CLASS)
    X = rng.standard_normal((len(labels), n_features)).astype(np.float32)
    X[:, 0] += 3 * labels
    # Columns are samples.
    return {"features": X.T, "labels": labels[:, None]}


def splits():
    """ant and bee are seen; of each the last two samples are for testing."""
    seen = np.arange(1, 21)
    test_seen = np.array([9, 10, 19, 20])
    return {
        "original_att": np.array([[1.0, 2, 3, 4], [4, -1, 6, 7], [0, 1, 0, 1]]),
        "att": np.eye(3, 4),
        "allclasses_names": np.array(CLASSES, dtype=object)[:, None],
        # Not sorted, as in the real files.
        "trainval_loc": np.setdiff1d(seen, test_seen)[::-1][:, None].astype(np.uint16),
        "test_seen_loc": test_seen[:, None].astype(float),
        "test_unseen_loc": np.arange(21, 41)[:, None].astype(np.uint8),
    }


def standard_splits():
    """dog is unseen."""
    return {
        "trainval_loc": np.arange(1, 31)[:, None],
        "test_unseen_loc": np.arange(31, 41)[:, None],
    }


def save_hdf5(path, variables):
    """Write variables as MATLAB 7.3 does."""
    import h5py

    kinds = {"f8": "double", "f4": "single", "i8": "int64", "u2": "uint16", "u1": "uint8"}
    with h5py.File(path, "w", userblock_size=512) as file:
        members = file.create_group("#refs#")
        for name, value in variables.items():
            value = np.asarray(value)
            if value.dtype == object:
                references = np.empty(value.T.shape, dtype=h5py.ref_dtype)
                for at, text in np.ndenumerate(value.T):
                    codes = np.frombuffer(text.encode("utf-16-le"), dtype="<u2")[:, None]
                    member = members.create_dataset(f"{name}{at}", data=codes)
                    member.attrs["MATLAB_class"] = np.bytes_(b"char")
                    references[at] = member.ref
                file.create_dataset(name, data=references)
                file[name].attrs["MATLAB_class"] = np.bytes_(b"cell")
            else:
                file.create_dataset(name, data=value.T, compression="gzip")
                file[name].attrs["MATLAB_class"] = np.bytes_(kinds[value.dtype.str[1:]].encode())
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")


def write_data_set(folder, name="CUB", save=savemat, *, features_file="res101.mat", **changes):
    """Write the data set into a folder; a change to None leaves a variable out."""
    home = folder / name
    home.mkdir(parents=True, exist_ok=True)

    def changed(variables):
        together = {key: changes.get(key, value) for key, value in variables.items()}
        return {key: value for key, value in together.items() if value is not None}

    more = {key: value for key, value in changes.items() if key not in {**splits(), **features()}}
    save(home / "att_splits.mat", {**changed(splits()), **more})
    save(home / features_file, changed(features()))
    return home


def write_standard_split(folder, name):
    home = folder / "standard_split" / name
    home.mkdir(parents=True)
    savemat(home / "att_splits.mat", standard_splits())
    return home / "att_splits.mat"
