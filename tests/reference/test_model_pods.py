"""Quantities as ``ParseQuantity``, ``Value`` and ``MilliValue`` have them
(``k8s.io/apimachinery/pkg/api/resource``), of which every row was given to the code of release
1.37.0; QoS classes, and who gets exclusive CPUs."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import strategies
from reference import QuantityError, exclusive_cpus, qos_class
from reference.pods.qos import pod_milli_cpus
from reference.pods.quantity import (
    QuantityTooWide,
    milli_value,
    quantity,
    reserved_milli,
    scaled_value,
    value,
)
from reference.steps import Container, Kind, Pod

FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
NUMBER = "unable to parse numeric part of quantity"
SUFFIX = "unable to parse quantity's suffix"


@pytest.mark.parametrize(
    ("text", "amount"),
    [("2", 2), ("2.0", 2), ("2e0", 2), ("2000m", 2), (".5", Fraction(1, 2)), ("1E", 10**18),
     ("64Mi", 64 * 2**20), ("0.1n", Fraction(1, 10**9)), ("1Ei", 2**60), ("-1", -1)],
)  # fmt: skip
def test_a_quantity_is_exact(text: str, amount: Fraction) -> None:
    assert quantity(text) == amount


@pytest.mark.parametrize(
    ("text", "whole", "milli"),
    [
        ("0", 0, 0), ("2", 2, 2000), ("1500m", 2, 1500), ("100u", 1, 1), ("1n", 1, 1),
        ("1k", 1000, 10**6), ("1Ki", 1024, 1024000), ("1.5Ki", 1536, 1536000),
        ("0.0001Ki", 1, 103), ("1e5", 10**5, 10**8), ("1e+5", 10**5, 10**8), ("1E5", 10**5, 10**8),
        ("1e-3", 1, 1), ("+3", 3, 3000), (".5", 1, 500), ("5.", 5, 5000), ("007", 7, 7000),
        ("1.0000000001", 2, 1001), ("0.1n", 1, 1), ("1e-400", 1, 1), ("0e-20", 0, 0),
        ("1e4294967296", 1, 1000),
        # Digits may be missing.
        ("+", 0, 0), ("-", 0, 0), (".", 0, 0), ("m", 0, 0), ("k", 0, 0), ("Ki", 0, 0), ("E", 0, 0),
        ("-0", 0, 0), ("000Ei", 0, 0),
        # Away from zero; what is held in more than 64 bits goes towards zero and one up.
        ("-1m", -1, -1), ("-1.5", -2, -1500), ("-1.5000000000000000000", 0, -1500),
        # At the edge of 64 bits: capped with a binary suffix, or overflowing as Go does.
        ("8Ei", 2**63 - 1, -1000), ("10Ei", 2**63 - 1, -1000),
        ("1E", 10**18, 0), ("1e16", 10**16, 0),
        ("1.Ei", 2**60, -(2**63)), ("1.5Ei", 3 * 2**59, -(2**62)),
        ("9300000000000000", 9300000000000000, -9146744073709551616),
        ("9223372036854775807", 2**63 - 1, -1000), ("9223372036854775808", -(2**63), 0),
        ("100000000000000000000", 7766279631452241920, 200376420520689664),
        ("12345678901234567890m", 12345678901234568, -6101065172474983726),
        ("1e20", 0, 0), ("1e30", 0, 0),
    ],
)  # fmt: skip
def test_whole_numbers_of_a_quantity(text: str, whole: int, milli: int) -> None:
    amount = quantity(text)
    assert (value(amount), milli_value(amount)) == (whole, milli)


@pytest.mark.parametrize(
    ("text", "kubelet"),
    [
        ("", FORM), ("1 ", FORM), ("1_0", FORM), ("0x1", FORM), ("\u0663", FORM), ("1.1.1", FORM),
        ("1E+-5", FORM), ("1e3.5", FORM), ("1-+1", FORM), ("1\n", FORM), ("1e1m", FORM),
        ("\u00b2", FORM), ("1K", SUFFIX), ("1mi", SUFFIX), ("1i", SUFFIX), ("1e", SUFFIX),
        ("e", SUFFIX), ("1k5", SUFFIX), ("--1", SUFFIX), ("1Kim", SUFFIX),
        ("1e99999999999999999999", SUFFIX), ("Ei", NUMBER), (".Ei", NUMBER), ("+.Ei", NUMBER),
    ],
)  # fmt: skip
def test_a_refusal_is_the_kubelets_and_names_the_text(text: str, kubelet: str) -> None:
    with pytest.raises(QuantityError) as caught:
        quantity(text)
    assert caught.value.kubelet == kubelet
    assert caught.value.text == text
    assert str(caught.value) == f"{kubelet}: {text!r}"


@pytest.mark.parametrize("text", ["1e2147483647", "1e1001", "9" * 5000, f"0.{'0' * 5000}1"])
def test_what_the_kubelet_would_choke_on_is_refused_at_once(text: str) -> None:
    with pytest.raises(QuantityTooWide):
        quantity(text)


@given(strategies.quantity_texts())
def test_rounding_is_up_and_by_less_than_a_unit(text: str) -> None:
    amount = quantity(text)
    assert 0 <= value(amount) - amount < 1
    assert 0 <= milli_value(amount) - amount * 1000 < 1
    assert scaled_value(amount, 3) == -(-amount // 1000)


@given(st.integers(-(10**17), 10**17))
def test_a_whole_number_is_itself(number: int) -> None:
    assert quantity(str(number)) == number == value(quantity(str(number)))


def test_a_quantity_is_a_fraction_that_can_be_copied() -> None:
    one = quantity("1e16")
    for twin in (pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one)):
        assert twin == one == Fraction(10**16)
        assert milli_value(twin) == milli_value(one) == 0
    # A sum is a plain number; what does not fit 64 bits is 0.
    assert milli_value(quantity("1500m") + quantity("1u")) == 1501
    assert milli_value(one + one) == 0


@pytest.mark.parametrize(
    ("texts", "before", "since"),
    [
        (["1000100u"], 1001, 1000), (["1000400u"], 1001, 1000), (["1.0004"], 1001, 1000),
        (["1000500u"], 1001, 1001), (["1000600u"], 1001, 1001), (["999600u"], 1000, 1000),
        (["500400u"], 501, 500), (["1m"], 1, 1), (["500u"], 1, 1), (["400u"], 1, 0),
        # Until 1.36 they are added before that is rounded up.
        (["400u", "400u"], 1, 0), (["600u", "600u", None], 2, 2), ([None, None], 0, 0),
    ],
)  # fmt: skip
def test_reservations_are_rounded_each_and_to_the_nearest_milli_from_1_37(
    texts: list[str | None], before: int, since: int
) -> None:
    """``cmd/kubelet/app/server.go`` (``parseResourceList``), 1.36.3 and 1.37.0."""
    assert reserved_milli(*texts, release="1.36") == before
    assert reserved_milli(*texts, release="1.37") == since


# -- QoS classes -----------------------------------------------------------------------------------


def container(
    cpu: str | None, memory: str | None = "64Mi", *, kind: Kind = Kind.APP, name: str = "c"
) -> Container:
    return Container(name, cpu, cpu, memory, memory, kind)


def pod(*containers: Container) -> Pod:
    return Pod("p", containers)


@pytest.mark.parametrize(
    ("containers", "qos"),
    [
        ([Container("c", "0", "0", "0", "0")], "BestEffort"),
        ([container("2"), Container("d")], "Burstable"),
        ([container("2", None)], "Burstable"),
        ([Container("c", "2", "2000m", "1Ki", "1024")], "Guaranteed"),
        ([container("1", kind=Kind.INIT), container("2")], "Guaranteed"),
    ],
)
def test_qos_class(containers: list[Container], qos: str) -> None:
    """Beside those that are recorded (scenarios ``qos/…``)."""
    assert qos_class(pod(*containers)) == qos


@pytest.mark.parametrize(
    ("cpu", "count"),
    [("2", 2), ("2000m", 2), ("2.0", 2), ("2e0", 2), ("2.5", 0), ("2001m", 0), ("500m", 0)],
)
def test_whole_requests_of_a_guaranteed_pod_are_exclusive(cpu: str, count: int) -> None:
    one, burstable = container(cpu), container(cpu, None)
    assert exclusive_cpus(pod(one), one) == count
    assert exclusive_cpus(pod(burstable), burstable) == 0


def test_the_pods_request_is_its_steady_state_or_its_hungriest_start() -> None:
    def of(cpu: str, kind: Kind) -> Container:
        return container(cpu, kind=kind)

    apps = [of("1", Kind.APP), of("500m", Kind.APP)]
    assert pod_milli_cpus(pod(*apps)) == 1500
    assert pod_milli_cpus(pod(of("4", Kind.INIT), *apps)) == 4000
    assert pod_milli_cpus(pod(of("1", Kind.SIDECAR), of("2", Kind.INIT), *apps)) == 3000
    assert pod_milli_cpus(pod(of("2", Kind.INIT), of("1", Kind.SIDECAR), *apps)) == 2500
