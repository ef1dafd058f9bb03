"""The kernel registry orders candidates, applies pins, and lists existing kernels in errors."""

from __future__ import annotations

import pytest

from opwright.errors import KernelNotFoundError, PluginError, RegistrationError
from opwright.packages import PluginReport
from opwright.registry import KernelRegistry
from opwright.targets.python_layout import PythonLayout
from swish_operators import ACME, FAILED, OTHER, PreparedSwish, make_kernels, swish

HERE = "swish_operators"


def add(kernels, library, dtypes=("float32",), priority=50, device="cpu", kernel=swish, **more):
    kernels.add(
        "acme.swish",
        device=device,
        dtypes="*" if dtypes == "*" else list(dtypes),
        kernel=kernel,
        library=library,
        priority=priority,
        package=ACME,
        **more,
    )


def libraries(kernels, *, device="cpu", dtype="float32", pins=None):
    return [e.library for e in kernels.candidates("acme.swish", device, dtype, pins)]


def test_the_higher_priority_comes_first():
    kernels = make_kernels()
    for library, priority in (("low", 0), ("high", 99), ("middle", 50)):
        add(kernels, library, priority=priority)
    assert libraries(kernels) == ["high", "middle", "low"]


def test_a_kernel_for_an_exact_dtype_comes_first_only_at_equal_priority():
    kernels = make_kernels()
    add(kernels, "any", "*")
    add(kernels, "exact")
    add(kernels, "eager", "*", priority=51)
    assert libraries(kernels) == ["eager", "exact", "any"]
    assert libraries(kernels, dtype="float64") == ["eager", "any"]


def test_a_kernel_for_an_exact_device_precedes_a_kernel_for_any_device():
    kernels = make_kernels()
    add(kernels, "anywhere", device="*")
    add(kernels, "here", "*")
    assert libraries(kernels) == ["here", "anywhere"]
    assert libraries(kernels, device="npu") == ["anywhere"]


def test_ties_are_broken_by_library_name():
    kernels = make_kernels()
    for library in ("zeta", "alpha", "mid"):
        add(kernels, library)
    assert libraries(kernels) == ["alpha", "mid", "zeta"]


def test_kernels_for_another_device_or_dtype_are_not_candidates():
    kernels = make_kernels()
    add(kernels, "fast", ("float64",))
    assert libraries(kernels) == []
    assert libraries(kernels, device="cuda", dtype="float64") == []
    assert kernels.candidates("other.op", "cpu", "float32") == ()


def test_one_registration_for_several_dtypes_creates_an_entry_for_each():
    kernels = make_kernels()
    add(kernels, "fast", ("float32", "float64"))
    single = kernels.candidates("acme.swish", "cpu", "float32")[0]
    double = kernels.candidates("acme.swish", "cpu", "float64")[0]
    assert (single.key.dtype, double.key.dtype) == ("float32", "float64")
    assert str(single.key) == "acme.swish[cpu, float32, fast]"


def test_adding_a_kernel_keeps_existing_entries():
    kernels = make_kernels()
    add(kernels, "one")
    before = kernels.candidates("acme.swish", "cpu", "float32")[0]
    add(kernels, "two", priority=60)
    assert kernels.candidates("acme.swish", "cpu", "float32")[1] is before
    assert kernels.entries("acme.swish")[0] is before


def test_a_kernel_added_after_a_lookup_is_found():
    kernels = make_kernels()
    before = kernels.epoch.now
    add(kernels, "one")
    assert libraries(kernels) == ["one"]
    add(kernels, "two", priority=60)
    assert libraries(kernels) == ["two", "one"]
    assert kernels.epoch.now == before + 2


def test_an_operator_pinned_to_a_library_has_only_candidates_of_that_library():
    kernels = make_kernels()
    add(kernels, "fast", priority=60)
    add(kernels, "slow")
    assert libraries(kernels, pins={"acme.swish": "slow"}) == ["slow"]
    assert libraries(kernels, pins={"acme.swish": "gone"}) == []
    assert libraries(kernels, pins={"acme.other": "slow"}) == ["fast", "slow"]


def test_a_pin_for_all_operators_sets_a_preference_and_a_pin_for_one_operator_is_strict():
    kernels = make_kernels()
    for library, priority in (("fast", 60), ("slow", 50), ("middle", 55)):
        add(kernels, library, priority=priority)
    assert libraries(kernels, pins={"*": "slow"}) == ["slow", "fast", "middle"]
    assert libraries(kernels, pins={"*": "gone"}) == ["fast", "middle", "slow"]
    assert libraries(kernels, pins={"*": "slow", "acme.swish": "fast"}) == ["fast"]


def test_candidates_are_cached():
    kernels = make_kernels()
    add(kernels, "fast")
    first = kernels.candidates("acme.swish", "cpu", "float32")
    assert kernels.candidates("acme.swish", "cpu", "float32") is first
    add(kernels, "faster", priority=60)
    assert kernels.candidates("acme.swish", "cpu", "float32")[0].library == "faster"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"device": "CPU"}, r"acme.swish\[CPU, fast\]: device must be lower_snake"),
        ({"dtypes": "float32"}, r"list of dtype names or '\*', got 'float32'; write"),
        ({"dtypes": ["flot32"]}, r"unknown dtype, got 'flot32'; did you mean 'float32'\?"),
        ({"dtypes": []}, "at least one dtype"),
        ({"dtypes": ["int8", "int8"]}, "each once"),
        ({"dtypes": 3}, "list of dtype names"),
        ({"library": "Fast"}, "library must be lower_snake"),
        ({"priority": 100}, "priority must be an int in 0 to 99, got 100"),
        ({"priority": -1}, "got -1"),
        ({"priority": True}, "got True"),
        ({"priority": 1.5}, "got 1.5"),
        ({"may_reuse": ["out"]}, "pairs"),
        ({"may_reuse": "xy"}, "pairs"),
        ({"may_reuse": [("out", "x", "y")]}, "pairs"),
        ({"may_reuse": [("out", 1)]}, "pairs"),
        ({"prefers": ["beta"]}, r"map attribute names to plain values, got \['beta'\]"),
        ({"prefers": "beta"}, "got 'beta'; write {'data_format': 'NHWC'}"),
        ({"prefers": {"beta ": 1.0}}, "attribute names"),
        ({"prefers": {"beta": None}}, "plain values"),
        ({"prefers": {"beta": [1, object()]}}, "plain values"),
        ({"kernel": "no target"}, "'module:attribute'"),
        ({"find_refusal": "no target"}, "find_refusal: target must be a string 'module:attribute'"),
        ({"find_refusal": "acme/libacme.so"}, "string 'module:attribute', got 'acme/libacme.so'"),
        ({"find_refusal": len}, "find_refusal: target must be a string 'module:attribute', got <"),
    ],
)
def test_a_malformed_kernel_is_refused(change, words):
    given = {"device": "cpu", "dtypes": ["float32"], "kernel": "m:k", "library": "fast"}
    kernels = make_kernels()
    before = kernels.epoch.now
    with pytest.raises(RegistrationError, match=words):
        kernels.add("acme.swish", package=ACME, **given | change)
    assert kernels.epoch.now == before


def test_a_duplicate_kernel_key_is_refused():
    kernels = make_kernels()
    add(kernels, "fast", ("float32", "float64"))
    with pytest.raises(
        RegistrationError,
        match=r"acme.swish\[cpu, float64, fast\]: .* by opwright-acme 1.0 and opwright-other 2.0",
    ):
        kernels.add(
            "acme.swish",
            device="cpu",
            dtypes=["float64"],
            kernel="m:k",
            library="fast",
            package=OTHER,
        )


def test_a_kernel_is_imported_once_and_checked_against_its_operator():
    kernels = make_kernels()
    add(kernels, "fast", kernel=f"{HERE}:swish")
    [entry] = kernels.entries("acme.swish")
    assert not entry.is_loaded
    assert entry.load() is swish
    assert entry.is_loaded
    assert not entry.takes_prepare
    assert entry.layout == PythonLayout((0, 1), (), ("beta",), ("beta",))


def test_the_error_for_a_kernel_that_lacks_an_attribute_names_its_package():
    kernels = make_kernels()
    add(kernels, "fast", kernel=f"{HERE}:wrong")
    [entry] = kernels.entries("acme.swish")
    with pytest.raises(
        RegistrationError,
        match=r"acme.swish\[cpu, float32, fast\] of opwright-acme 1.0: .* without 'beta'",
    ):
        entry.load()
    assert not entry.is_loaded


def test_the_error_for_a_kernel_that_cannot_be_imported_names_its_package():
    kernels = make_kernels()
    add(kernels, "fast", kernel="not_there:k")
    [entry] = kernels.entries("acme.swish")
    with pytest.raises(PluginError, match=r"acme.swish\[cpu, float32, fast\]: 'not_there:k' of"):
        entry.load()


@pytest.mark.parametrize("what", ["NUMBER", "ACME.__class__"])
def test_an_object_that_is_not_a_kernel_is_refused(what):
    kernels = make_kernels()
    add(kernels, "fast", kernel=f"{HERE}:{what}")
    with pytest.raises(RegistrationError, match="a kernel must be a function"):
        kernels.entries("acme.swish")[0].load()


def test_a_class_with_prepare_is_a_kernel_whose_result_is_checked():
    kernels = make_kernels()
    add(kernels, "fast", kernel=PreparedSwish)
    [entry] = kernels.entries("acme.swish")
    assert entry.load() is PreparedSwish
    assert entry.takes_prepare
    assert entry.layout is None
    assert entry.check_prepared(PreparedSwish()) == PythonLayout((0, 1), (), ())
    with pytest.raises(RegistrationError, match="without 'out'"):
        entry.check_prepared(lambda x: None)


def test_the_error_for_a_missing_kernel_lists_alternatives_and_load_failures():
    kernels = make_kernels(PluginReport((ACME,), (FAILED,)))
    add(kernels, "onednn", priority=60)
    add(kernels, "numpy", "*", priority=0)
    add(kernels, "numpy_double", ("float64",), priority=0)
    error = kernels.not_found("acme.swish", "cuda", "float32")
    assert isinstance(error, KernelNotFoundError)
    assert str(error).splitlines() == [
        "acme.swish[cuda, float32]: no kernel registered",
        "  available: acme.swish[cpu, float32] (onednn)",
        "  available: acme.swish[cpu, float64] (numpy_double)",
        "  available: acme.swish[cpu, *] (numpy)",
        "  plugin 'cuda' failed to load: ModuleNotFoundError: No module named 'cupy'",
        '  to get it: pip install "opwright[cuda]"',
    ]


def test_the_error_suggests_only_packages_that_would_help():
    kernels = make_kernels()
    assert "to get it" not in str(kernels.not_found("acme.swish", "cpu", "float32"))
    assert str(kernels.not_found("softmax", "cpu", "float32")).endswith(
        '  to get it: pip install "opwright[cpu]"'
    )
    add(kernels, "fast", ("float64",), device="cuda")
    assert "to get it" not in str(kernels.not_found("acme.swish", "cuda", "float32"))


def test_refusals_are_reported_with_their_reasons():
    kernels = make_kernels()
    add(kernels, "fast")
    [entry] = kernels.entries("acme.swish")
    text = str(kernels.not_found("acme.swish", "cpu", "float32", [(entry, "refused: odd size")]))
    assert text.startswith("acme.swish[cpu, float32]: every kernel refused\n")
    assert "  fast of opwright-acme 1.0 refused: odd size\n" in text


def test_a_pin_without_a_remaining_kernel_is_reported():
    kernels = make_kernels()
    add(kernels, "fast", ("float64",))
    text = str(kernels.not_found("acme.swish", "cpu", "float32", pinned="fast"))
    assert "no kernel registered in the library 'fast', to which the Context pins it" in text


def test_an_operator_without_any_kernel_is_reported():
    text = str(make_kernels().not_found("acme.swish", "cpu", "float32"))
    assert "  available: nothing, on any device, for 'acme.swish'" in text


def test_a_long_list_of_alternatives_is_abbreviated():
    kernels = make_kernels()
    for i in range(30):
        add(kernels, f"lib{i}", device=f"npu{i}")
    text = str(kernels.not_found("acme.swish", "cpu", "float32"))
    assert text.count("available: ") == 13
    assert "available: 18 more; see: opwright kernels acme.swish" in text


def test_devices_and_libraries_of_an_operator_are_listed():
    kernels = make_kernels()
    add(kernels, "b", device="cuda")
    add(kernels, "a")
    assert kernels.devices_of("acme.swish") == ("cpu", "cuda")
    assert kernels.libraries_of("acme.swish") == kernels.libraries_of("*") == ("a", "b")
    assert kernels.devices_of("acme.other") == kernels.libraries_of("acme.other") == ()
    assert kernels.op_types() == ["acme.swish"]
    assert [r.library for r, _ in kernels.registrations()] == ["b", "a"]


def test_a_kernel_entry_contains_all_declarations():
    kernels = make_kernels()
    add(
        kernels,
        "fast",
        may_reuse=[["out", "x"]],
        capturable=True,
        deterministic=False,
        strided=True,
        prefers={"beta": 2.0, "sizes": [1, 2]},
    )
    [entry] = kernels.entries("acme.swish")
    assert entry.may_reuse == (("out", "x"),)
    assert (entry.capturable, entry.deterministic, entry.strided) == (True, False, True)
    assert entry.prefers == {"beta": 2.0, "sizes": (1, 2)}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            {"may_reuse": [("out", "y")]},
            r"an input slot, got \('out', 'y'\); see: opw",
        ),
        ({"prefers": {"bta": 1.0}}, "attributes of the operator, got 'bta'; did you mean 'beta'?"),
        ({"prefers": {"beta": "x"}}, "prefers: acme.swish: beta must be a float.*, got beta='x'"),
        ({"prefers": {"beta": -1.0}}, "prefers: acme.swish: beta must be .*, got beta=-1.0"),
    ],
)
def test_a_kernel_that_names_unknown_slots_is_not_loaded(said, words):
    kernels = make_kernels()
    add(kernels, "fast", kernel=f"{HERE}:swish", **said)
    [entry] = kernels.entries("acme.swish")
    who = r"acme.swish\[cpu, float32, fast\] of opwright-acme 1.0: "
    with pytest.raises(RegistrationError, match=who + ".*" + words):
        entry.load()
    assert not entry.is_loaded


def test_a_kernel_prefers_attributes_only_if_all_preferred_values_match():
    kernels = make_kernels()
    add(kernels, "fast", prefers={"beta": 2, "sizes": [1, 2]})
    add(kernels, "slow")
    fast, slow = kernels.entries("acme.swish")
    attrs = {"beta": 2.0, "sizes": (1, 2), "other": 3}
    assert fast.suits(attrs, "beta")
    assert not fast.suits(attrs, "other")
    assert not fast.suits({"beta": 2.0}, "beta")
    assert not slow.suits(attrs, "beta")


def test_kernels_can_be_registered_for_an_unprovided_operator():
    kernels = KernelRegistry(make_kernels()._ops)
    kernels.add("far.op", device="cpu", dtypes="*", kernel="m:k", library="fast", package=OTHER)
    assert kernels.devices_of("far.op") == ("cpu",)
