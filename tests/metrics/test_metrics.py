"""Metrics equal those of a plain script, whatever the size of the pieces; labels that do not fit are named."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, average_precision_score, f1_score, jaccard_score, log_loss

from xbench.errors import XBenchError
from xbench.metrics import METRICS, Answered, Misfit, load, row_of

SAMPLES, CLASSES = 60, 7


def kept(metric, outputs, labels, piece=13, inputs=()):
    """What a metric keeps of all samples, computed piece by piece."""
    pieces = []
    for first in range(0, len(outputs), piece):
        part = slice(first, first + piece)
        own = None if labels is None else labels[part]
        pieces.append(metric.keep(Answered(outputs[part], own, [each[part] for each in inputs])))
    return {name: np.concatenate([each[name] for each in pieces]) for name in pieces[0]}


@pytest.fixture(scope="module")
def scores():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, SAMPLES)
    outputs = rng.normal(size=(SAMPLES, CLASSES)).astype(np.float32)
    outputs[np.arange(SAMPLES), labels] += 1.5 * rng.random(SAMPLES).astype(np.float32)
    return outputs, labels


def test_top1_and_top5_are_shares_of_hits(scores):
    outputs, labels = scores
    one, five = load("top1"), load("top5")
    assert one.score(kept(one, outputs, labels)) == accuracy_score(labels, outputs.argmax(1))
    hits = [label in np.argsort(-row, kind="stable")[:5] for row, label in zip(outputs, labels)]
    assert kept(five, outputs, labels)["hit"].tolist() == hits
    assert 0 < one.score(kept(one, outputs, labels)) < five.score(kept(five, outputs, labels)) < 1


def test_of_equal_scores_the_first_class_counts_as_higher():
    outputs = np.array([[1.0, 1, 0, 0, 0, 0, 0, 0]] * 8)
    metric = load("top1")
    assert kept(metric, outputs, np.arange(8))["hit"].tolist() == [True] + [False] * 7
    assert kept(load("top5"), outputs, np.arange(8))["hit"].tolist() == [True] * 5 + [False] * 3


def test_f1_and_map_are_those_of_scikit_learn(scores):
    outputs, labels = scores
    metric = load("f1")
    assert metric.score(kept(metric, outputs, labels)) == f1_score(labels, outputs.argmax(1), average="macro")
    several = np.random.default_rng(1).integers(0, 2, outputs.shape)
    metric = load("map")
    assert metric.score(kept(metric, outputs, several)) == average_precision_score(several, outputs, average="macro")
    one_hot = np.eye(CLASSES, dtype=int)[labels]
    assert metric.score(kept(metric, outputs, labels)) == average_precision_score(one_hot, outputs, average="macro")


@pytest.mark.parametrize("void", [255, -100])
def test_mean_iou_is_that_of_all_pixels(void):
    rng = np.random.default_rng(2)
    outputs, labels = rng.normal(size=(9, 4, 5, 6)), rng.integers(0, 3, (9, 5, 6))  # class 3 is only said
    labels[:, 0, :] = void
    metric, seen = load("mean-iou"), labels != void
    expected = jaccard_score(labels[seen], outputs.argmax(1)[seen], average="macro")
    assert metric.score(kept(metric, outputs, labels, 2)) == pytest.approx(expected, rel=1e-15)
    square = rng.normal(size=(3, 5, 5, 5))  # both axes could be the classes: it is the second
    truth = rng.integers(0, 5, (3, 5, 5))
    expected = jaccard_score(truth.ravel(), square.argmax(1).ravel(), average="macro")
    assert metric.score(kept(metric, square, truth)) == pytest.approx(expected, rel=1e-15)


def test_perplexity_is_of_the_tokens_that_have_a_label():
    rng = np.random.default_rng(3)
    outputs, labels = rng.normal(size=(8, 6, 11)), rng.integers(0, 11, (8, 6))
    labels[:, 4:] = -100
    exact = np.exp(outputs) / np.exp(outputs).sum(-1, keepdims=True)
    expected = np.exp(log_loss(labels[:, :4].ravel(), exact[:, :4].reshape(-1, 11), labels=range(11)))
    metric = load("perplexity")
    assert metric.score(kept(metric, outputs, labels, 3)) == pytest.approx(expected, rel=1e-12)


def test_without_labels_perplexity_is_of_the_next_tokens():
    rng = np.random.default_rng(4)
    outputs, tokens = rng.normal(size=(8, 6, 11)), rng.integers(0, 11, (8, 6))
    metric = load("perplexity")
    shifted = np.concatenate([tokens[:, 1:], np.full((8, 1), -100)], axis=1)
    own = metric.score(kept(metric, outputs, None, inputs=[tokens]))
    assert own == metric.score(kept(metric, outputs, shifted))
    for inputs in ([tokens.astype(np.float32)], [np.ones_like(tokens), tokens]):  # of two, one may be a mask
        with pytest.raises(Misfit, match="give --labels"):
            kept(metric, outputs, None, inputs=inputs)


def test_word_error_counts_words():
    metric = load("word-error")
    said, true = ["a b c", "d", "x y"], ["a c", "d e f", "x y"]
    result = kept(metric, said, np.array(true), 2)
    assert (result["errors"].tolist(), result["words"].tolist()) == ([1, 2, 0], [2, 3, 2])
    assert metric.score(result) == 3 / 7
    with pytest.raises(Misfit, match="has no word") as error:
        metric.keep(Answered(["a", "b"], np.array(["a", " "])))
    assert error.value.place == 1
    with pytest.raises(Misfit, match="--post"):
        metric.keep(Answered(np.zeros((2, 3)), np.array(["a", "b"])))


def test_a_score_that_is_not_a_number_is_no_answer(scores):
    outputs, labels = scores[0].copy(), scores[1]
    outputs[3] = np.nan
    result = kept(load("top1"), outputs, labels)
    assert (result["answer"][3], result["hit"][3]) == (-1, False)
    metric = load("map")
    assert np.isnan(metric.score(kept(metric, outputs, labels)))


def test_the_axis_of_the_classes_follows_from_the_labels():
    rng = np.random.default_rng(5)
    tokens = rng.normal(size=(4, 6, 3))
    metric, labels = load("top1"), tokens.argmax(-1)
    assert metric.score(kept(metric, tokens, labels)) == 1
    assert metric.score(kept(metric, np.moveaxis(tokens, -1, 1), labels)) == 1
    pooled = rng.normal(size=(4, 6, 1, 1))
    assert metric.score(kept(metric, pooled, pooled.argmax(1)[:, 0, 0])) == 1
    alike = rng.normal(size=(4, 3, 3))
    with pytest.raises(Misfit, match="both fit"):
        metric.keep(Answered(alike, alike.argmax(1)))
    pixels = rng.normal(size=(2, 5, 5, 5))
    assert metric.score(kept(metric, pixels, pixels.argmax(1))) == 1
    half = labels.copy()
    half[:, :3] = (half[:, :3] + 1) % 3
    half[:, 5] = -100
    assert metric.score(kept(metric, tokens, half)) == pytest.approx(2 / 5)


@pytest.mark.parametrize(
    ("labels", "words", "place"),
    [
        (np.array([0, 1, 7]), "label 7 is none of the network's 7 classes, 0 to 6", 2),
        (np.array([0, -1, 2]), "label -1 is none", 1),
        (np.array([0.0, 1.5, 2.0]), "the label is 1.5, and labels are numbers of classes", 1),
        (np.array([0.0, 1.0, np.nan]), "the label is nan, and labels are numbers of classes", 2),
        (np.array([0, 2**63 + 5, 1], np.uint64), "the label is 9223372036854775813, and labels are", 1),
        (np.array(["a", "b", "c"]), "labels are numbers of classes", None),
        (np.zeros((3, 2), int), "the output of a sample is 7 and its label 2", None),
        (None, "give --labels", None),
        (np.array([0, -100, 2]), "no label of the sample counts", 1),
    ],
)
def test_labels_that_do_not_fit_are_named(scores, labels, words, place):
    with pytest.raises(Misfit, match=words) as error:
        load("top1").keep(Answered(scores[0][:3], labels))
    assert error.value.place == place


def test_a_single_score_is_not_compared_with_itself():
    with pytest.raises(Misfit, match="a single score"):
        load("top1").keep(Answered(np.zeros((3, 1)), np.zeros(3, int)))
    with pytest.raises(Misfit, match="every label is among the 5 highest"):
        load("top5").keep(Answered(np.zeros((3, 5)), np.zeros(3, int)))


def test_a_constant_answer_has_a_score(scores):
    outputs, labels = scores
    most = np.bincount(labels).argmax()
    constant = np.zeros_like(outputs)
    constant[:, most] = 1
    for word in ("top1", "f1"):
        metric = load(word)
        assert metric.constant is not None
        expected = metric.score(kept(metric, constant, labels))
        assert metric.constant(kept(metric, outputs, labels)) == expected


def test_the_best_constant_answer_of_top5_has_five_classes():
    outputs, labels = np.zeros((20, 10)), np.repeat(np.arange(10), 2)
    metric = load("top5")
    assert metric.constant is not None and metric.constant(kept(metric, outputs, labels)) == 0.5


def test_an_own_function_gives_one_number_or_one_for_each_sample(scores):
    outputs, labels = scores
    hits = load("my:hits", lambda given, truth: given.argmax(1) == truth)
    share = load("my:share", lambda given, truth: float(np.mean(given.argmax(1) == truth)))
    both = [metric.score(kept(metric, outputs, labels)) for metric in (hits, share)]
    assert both == [accuracy_score(labels, outputs.argmax(1))] * 2
    for function, words in {
        (lambda a, b: 1 / 0): "raises ZeroDivisionError: division by zero",
        (lambda a, b: "good"): "gives <U4 of shape",
        (lambda a, b: np.zeros(3)): "not a number or one per sample",
    }.items():
        with pytest.raises(XBenchError, match=words):
            metric = load("my:own", function)
            metric.score(kept(metric, outputs, labels))


def test_an_unknown_word_gets_a_suggestion():
    with pytest.raises(XBenchError, match="did you mean top1"):
        row_of("top-1")
    assert {row_of(word).module for word in METRICS} == {"top", "f1", "mean_iou", "map", "word_error", "perplexity"}
