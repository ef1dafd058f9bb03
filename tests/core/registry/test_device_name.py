"""Device names are strings in the public interface and DeviceName objects internally."""

from __future__ import annotations

import pytest

from opwright.device import DeviceName
from opwright.errors import DeviceNotFoundError


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cuda", DeviceName("cuda", 0)),
        ("cuda:1", DeviceName("cuda", 1)),
        ("cuda:12", DeviceName("cuda", 12)),
        ("cpu", DeviceName("cpu", 0)),
    ],
)
def test_a_device_name_is_parsed_from_a_string(text, name):
    assert DeviceName.parse(text) == name
    assert str(name) == text
    assert name.is_host == (text == "cpu")


def test_device_number_0_is_omitted_from_the_string():
    assert str(DeviceName.parse("cuda:0")) == "cuda"
    assert DeviceName.parse("cpu:0").is_host


@pytest.mark.parametrize("text", ["cuda:", "cuda:-1", "cuda:1.5", "cuda:one", "cuda:1:2"])
def test_the_error_for_an_invalid_device_number_suggests_a_fix(text):
    with pytest.raises(DeviceNotFoundError, match="an int of at least 0, got .* write 'cuda'"):
        DeviceName.parse(text)


def test_a_device_number_with_thousands_of_digits_is_refused():
    with pytest.raises(DeviceNotFoundError, match="got '1+'; write .* of at most 6 digits$"):
        DeviceName.parse("cuda:" + "1" * 5000)


def test_the_error_for_a_numbered_host_device_suggests_the_name_without_a_number():
    with pytest.raises(DeviceNotFoundError, match="got 'one'; write 'cpu'$"):
        DeviceName.parse("cpu:one")
