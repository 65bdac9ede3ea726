"""Recipes: what a manifest may say, and what is told to a request that no profile takes."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from visavis.bundles.store.recipe import PlanRecipe, ProfileSpec, ShapeRange
from visavis.serving.errors import InvalidInputError

MEL = {"min": [1, 10, 80], "opt": [1, 200, 80], "max": [8, 2048, 80]}


def recipe(**changes: Any) -> PlanRecipe:
    table: dict[str, Any] = {
        "name": "vocoder",
        "graph": "vocoder.onnx",
        "profiles": [{"name": "speech", "shapes": {"mel": MEL}}],
    }
    return PlanRecipe.model_validate(table | changes)


@pytest.mark.parametrize("shape", [(1, 10, 80), (8, 2048, 80), (3, 77, 80)])
def test_a_shape_within_the_profile_is_taken(shape: tuple[int, ...]) -> None:
    assert recipe().check({"mel": shape}) == 0


@pytest.mark.parametrize("shape", [(1, 9, 80), (9, 100, 80), (1, 100, 40), (1, 2049, 80), (1, 80)])
def test_a_shape_outside_names_tensor_shape_and_range(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        recipe().check({"mel": shape})
    assert str(caught.value) == (
        f"plan vocoder: mel has the shape {list(shape)}; it takes [1, 10, 80] to [8, 2048, 80]"
    )


def test_a_missing_tensor_is_named_with_its_range() -> None:
    with pytest.raises(InvalidInputError, match=r"mel is missing; it takes \[1, 10, 80\] to"):
        recipe().check({"sound": (1, 2)})


def test_the_first_profile_that_takes_the_request_is_chosen() -> None:
    long = {"min": [1, 512, 80], "opt": [1, 4096, 80], "max": [1, 8192, 80]}
    two = recipe(
        profiles=[
            {"name": "short", "shapes": {"mel": MEL}},
            {"name": "long", "shapes": {"mel": long}},
        ]
    )
    assert two.check({"mel": (1, 600, 80)}) == 0
    assert two.check({"mel": (1, 3000, 80)}) == 1
    with pytest.raises(InvalidInputError, match=r"profile short: mel .* profile long: mel has"):
        two.check({"mel": (2, 3000, 80)})


def test_one_key_may_name_many_tensors() -> None:
    past = ShapeRange(min=(1, 1), opt=(1, 2), max=(1, 3))
    spec = ProfileSpec(name="next", shapes={"past_{key,value}_{0..2}": past, "tokens": past})
    assert list(spec.shapes) == [
        *(f"past_key_{n}" for n in range(3)),
        *(f"past_value_{n}" for n in range(3)),
        "tokens",
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"graph": "../vocoder.onnx"}, "no '..'"),
        ({"precisions": ["fp16", "fp16"]}, "named twice"),
        ({"precisions": ["fp8"]}, "'fp32', 'fp16' or 'int8'"),
        ({"precisions": []}, "at least 1"),
        ({"precisions": ["fp32", "int8"]}, "INT8 needs a set to be named"),
        ({"calibration": "speech"}, "and nothing else does"),
        ({"profiles": []}, "at least 1"),
        ({"workspace": 3}, "workspace"),
        ({"profiles": [{"name": "a", "shapes": {}}]}, "at least 1"),
        ({"profiles": [{"name": "a", "shapes": {"mel": MEL}}] * 2}, "two profiles have one name"),
        (
            {
                "profiles": [
                    {"name": "a", "shapes": {"mel": MEL}},
                    {"name": "b", "shapes": {"sound": MEL}},
                ]
            },
            "same inputs",
        ),
        ({"profiles": [{"name": "a", "shapes": {"past_{0": MEL}}]}, "without its partner"),
        ({"profiles": [{"name": "a", "shapes": {"m{el,el}": MEL}}]}, "mel has two ranges"),
        (
            {"profiles": [{"name": "a", "shapes": {"mel": {**MEL, "min": [1, 10]}}}]},
            "same number of dimensions",
        ),
        (
            {"profiles": [{"name": "a", "shapes": {"mel": {**MEL, "opt": [1, 3000, 80]}}}]},
            "min <= opt <= max, not 10, 3000, 2048",
        ),
        (
            {"profiles": [{"name": "a", "shapes": {"mel": {**MEL, "min": [1, 0, 80]}}}]},
            "nothing for tensors of length 0",
        ),
    ],
)
def test_a_recipe_that_cannot_work_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        recipe(**changes)
    assert said in str(caught.value)
