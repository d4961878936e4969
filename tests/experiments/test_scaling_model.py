"""Study 2's performance model: its formulas, and its own worked example."""

import pytest

from xbench.experiments.scaling.model import (
    Line,
    Phases,
    fitted,
    iteration,
    predicted,
    read_ahead,
    shares,
    speed_up,
    visible,
)

# Shi, Wang and Chu, arXiv 1711.05979v3, table V: CNTK's AlexNet, batch 1024, one P40; table VI: t_comm, not hidden.
CNTK = Phases(io=0.2233, h2d=0.0528, forward=0.1684, backward=0.2919, update=0.0086)
COMM = {2: 0.0359, 4: 0.0420}
READ = 588e6 / 3.5e9  # of t_io, reading a batch from the system's cache; the rest is decoding


def test_the_phases_of_one_gpu_add_up_to_its_iteration():
    assert CNTK.gpu == pytest.approx(0.5217)
    assert iteration(CNTK) == pytest.approx(0.7433, rel=0.01)  # as the table measures it


@pytest.mark.parametrize(
    ("gpus", "io", "says", "paper"),
    [
        (2, 2 * 0.2233, 1.484, 1.478),
        (4, 4 * 0.2233, 2.045, None),
        (2, 2 * READ + (0.2233 - READ), 1.570, None),
        (4, 4 * READ + (0.2233 - READ), 2.308, 2.32),
    ],
)
def test_the_papers_predictions_follow_from_two_assumptions_one_each(gpus, io, says, paper):
    gain = speed_up(gpus, CNTK.io, io, CNTK.gpu, COMM[gpus])
    assert gain == pytest.approx(says, abs=5e-4)
    assert paper is None or gain == pytest.approx(paper, rel=0.006)


def test_reading_ahead_takes_the_slower_of_both():
    assert read_ahead(CNTK, 0.1) == pytest.approx(0.6217)
    assert read_ahead(Phases(9.0, 1, 1, 1, 1), 1) == 9.0


def test_what_fits_behind_the_backward_pass_leaves_the_first_layers_communication():
    assert visible([0.5, 0.9, 0.2], [1.0, 1.0, 1.0]) == pytest.approx((0.5, 1))


def test_what_fits_nowhere_leaves_the_sum_from_the_last_layer_on():
    comm, backward = [2.0, 3.0, 4.0], [1.0, 1.0, 1.0]
    assert visible(comm, backward) == (sum(comm) - sum(backward[:2]), 2)


def test_case_2_begins_at_the_layer_that_no_longer_fits():
    comm, backward = [2.0, 3.0, 0.1, 0.1], [1.0, 1.0, 1.0, 1.0]
    assert visible(comm, backward) == pytest.approx((2.0 + 3.0 - 1.0, 2))


def test_one_message_of_all_gradients_is_seen_whole():
    assert visible([0.7], [5.0]) == pytest.approx((0.7, 1))
    with pytest.raises(ValueError):
        visible([0.7], [5.0, 1.0])


def test_a_line_is_found_and_is_never_below_zero():
    assert fitted([(size, 1e-3 + 2e-9 * size) for size in (4, 1000, 10**6)]) == pytest.approx((1e-3, 2e-9))
    assert fitted([(1000, 1e-3), (2000, 3e-3)]).latency == 0
    assert fitted([(1000, 3e-3), (2000, 1e-3)]).per_byte == 0
    for bad in ([(4, 1.0), (4, 2.0)], [(4, 0.0), (8, 1.0)]):
        with pytest.raises(ValueError):
            fitted(bad)


def test_messages_wait_for_the_layers_that_they_hold():
    layers = [(100, 60), (50, 30), (10, 10)]
    assert shares([160], layers) == [1.0]
    assert shares([60, 100], layers) == pytest.approx([0.4, 0.6])
    assert shares([20, 140], layers) == pytest.approx([0.4, 0.6])
    assert shares([10, 50, 100], layers) == pytest.approx([0.1, 0.3, 0.6])
    assert shares([60, 100], layers, early=False) == [1.0, 0.0]


def test_a_prediction_is_one_workers_iteration_slowed_and_what_is_seen():
    one, line = Phases(0.1, 0.1, 1.0, 2.0, 0.3), Line(0.01, 0.001)
    alone = predicted(one, line, [100], [1.0], 1.0)
    assert alone == pytest.approx((3.5 + 0.11, 0.11, 0.11, 1))
    half = predicted(one, line, [100, 100], [0.5, 0.5], 2.0)
    assert half == pytest.approx((7.0 + 0.11, 0.22, 0.11, 1))
    late = predicted(one, line, [100, 100], [1.0, 0.0], 1.0)
    assert late.visible == pytest.approx(0.22)
