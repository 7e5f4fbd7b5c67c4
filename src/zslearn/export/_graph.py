"""An ONNX graph while it is being written: nodes, constants, and the ones that are needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.utils import import_optional

#: Version of the operators. The first in which the largest of a row takes its axis as an input.
OPSET = 18
# Version of the file format, old enough for runtimes that know the operators.
_FILE_VERSION = 8
# Protocol buffers end at two gibibytes.
_LARGEST_FILE = 2**31 - 2**20


class Graph:
    """Nodes in the order of computation, and constants.

    Parameters
    ----------
    n_features : int
        Width of the input "X", whose number of rows is free.
    """

    def __init__(self, n_features: int) -> None:
        self.onnx: Any = import_optional("onnx", "export_onnx")
        self.n_features = n_features
        self.input = "X"
        self._nodes: list[Any] = []
        self._constants: dict[str, NDArray[Any]] = {}
        self._names: dict[tuple[Any, ...], str] = {}
        self._n_values = 0
        self._batch: str | None = None

    def add(self, operator: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Add a node of one output; its name."""
        return self.add_many(operator, inputs, 1, **attributes)[0]

    def add_many(
        self, operator: str, inputs: Sequence[str], n_outputs: int, **attributes: Any
    ) -> list[str]:
        """Add a node of several outputs; their names."""
        names = [self._new_name(operator.lower()) for _ in range(n_outputs)]
        node = self.onnx.helper.make_node(operator, list(inputs), names, **attributes)
        self._nodes.append(node)
        return names

    def constant(self, value: NDArray[Any]) -> str:
        """The name of a constant; equal ones are kept once."""
        value = np.ascontiguousarray(value).reshape(value.shape)
        if value.dtype.kind in "OU":
            key: tuple[Any, ...] = ("text", value.shape, tuple(value.ravel().tolist()))
        else:
            key = (value.dtype.str, value.shape, value.tobytes())
        if key not in self._names:
            self._names[key] = self._new_name("constant")
            self._constants[self._names[key]] = value
        return self._names[key]

    def n_rows(self) -> str:
        """The name of the number of rows of the input, a vector of one integer."""
        if self._batch is None:
            shape = self.add("Shape", [self.input])
            first = self.constant(np.array([0], dtype=np.int64))
            self._batch = self.add("Gather", [shape, first], axis=0)
        return self._batch

    def output(self, name: str, value: str) -> None:
        """Give a value the name of an output."""
        self._nodes.append(self.onnx.helper.make_node("Identity", [value], [name]))

    def model(self, outputs: Mapping[str, tuple[Any, Sequence[Any]]], metadata: Any) -> Any:
        """The model: what the outputs need, and no more.

        Parameters
        ----------
        outputs : mapping of str to (dtype, shape)
            Outputs by name. A shape may name an axis.
        metadata : mapping of str to str
            What the file says of itself.

        Returns
        -------
        onnx.ModelProto
            Checked.
        """
        onnx, helper = self.onnx, self.onnx.helper
        nodes, constants = self._needed(set(outputs))
        size = sum(value.nbytes for value in constants.values() if value.dtype.kind != "O")
        if size > _LARGEST_FILE:
            raise ValueError(
                f"The model's arrays take {size / 2**30:.1f} GiB, and an ONNX file holds 2: "
                "describe fewer classes, or serve the model itself."
            )
        graph = helper.make_graph(
            nodes,
            "zslearn",
            [helper.make_tensor_value_info("X", onnx.TensorProto.FLOAT, ["rows", self.n_features])],
            [
                helper.make_tensor_value_info(name, self.element(dtype), list(shape))
                for name, (dtype, shape) in outputs.items()
            ],
            [self._tensor(name, value) for name, value in constants.items()],
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=_FILE_VERSION,
            producer_name="zslearn",
        )
        helper.set_model_props(model, dict(metadata))
        onnx.checker.check_model(model)
        return model

    def element(self, dtype: Any) -> int:
        """ONNX's number for a dtype."""
        if np.dtype(dtype).kind in "OU":
            return int(self.onnx.TensorProto.STRING)
        return int(self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def _tensor(self, name: str, value: NDArray[Any]) -> Any:
        if value.dtype.kind in "OU":
            text = [str(item).encode() for item in value.ravel().tolist()]
            return self.onnx.helper.make_tensor(name, self.element(object), value.shape, text)
        return self.onnx.numpy_helper.from_array(value, name)

    def _needed(self, wanted: set[str]) -> tuple[list[Any], dict[str, NDArray[Any]]]:
        """Nodes and constants that lead to some values."""
        wanted = set(wanted)
        kept = []
        for node in reversed(self._nodes):
            if wanted.intersection(node.output):
                kept.append(node)
                wanted.update(node.input)
        constants = {name: value for name, value in self._constants.items() if name in wanted}
        return kept[::-1], constants

    def _new_name(self, stem: str) -> str:
        self._n_values += 1
        return f"{stem}_{self._n_values}"
