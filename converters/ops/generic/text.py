"""Text, as the integer codes of its words."""

import itertools

import numpy as np


def TfIdfVectorizer(
    xp,
    x,
    *,
    max_gram_length,
    max_skip_count,
    min_gram_length,
    mode,
    ngram_counts,
    ngram_indexes,
    pool_int64s=None,
    pool_strings=None,
    weights=None,
):
    """How often each n-gram of the pool occurs in x (words) or (batch, words), at its index in the last axis.

    Words of an n-gram may be 1 + skip apart, for every skip up to `max_skip_count`. IDF counts an n-gram once and
    weighs it; TFIDF weighs the count.
    """
    if pool_int64s is None:
        raise NotImplementedError("TfIdfVectorizer of strings")
    rows = xp.reshape(x, (-1, xp.shape(x)[-1]))
    starts, parts = [*ngram_counts, len(pool_int64s)], []
    for n, (start, end) in enumerate(itertools.pairwise(starts), 1):
        pool = np.asarray(pool_int64s[start:end], np.int64).reshape(-1, n)
        if len(pool) and min_gram_length <= n <= max_gram_length:
            parts.append(_counts(xp, rows, pool, range(1 if n == 1 else max_skip_count + 1)))
        elif len(pool):
            parts.append(xp.astype(xp.asarray(np.zeros((xp.shape(rows)[0], len(pool)), np.float32)), "float32"))
    counts = xp.concatenate(parts, 1)
    counts = xp.minimum(counts, 1) if mode == "IDF" else counts
    places = np.zeros((len(ngram_indexes), max(ngram_indexes) + 1), np.float32)
    places[np.arange(len(ngram_indexes)), list(ngram_indexes)] = 1 if mode == "TF" or weights is None else weights
    y = xp.matmul(counts, xp.asarray(places, counts))
    return xp.reshape(y, (*xp.shape(x)[:-1], places.shape[1]))


def _counts(xp, rows, pool, skips):
    """How often each row of `pool` (grams, n) occurs in each of `rows` (batch, words): (batch, grams)."""
    n, total = pool.shape[1], np.zeros((xp.shape(rows)[0], len(pool)), np.float32)
    for step in (skip + 1 for skip in skips):
        last = xp.shape(rows)[1] - (n - 1) * step
        if last <= 0:
            break
        equal = None
        for k in range(n):
            word = xp.getitem(rows, (slice(None), slice(k * step, k * step + last)))
            same = xp.equal(xp.expand_dims(word, (2,)), pool[:, k].reshape(1, 1, -1))
            equal = same if equal is None else xp.logical_and(equal, same)
        total = xp.sum(xp.astype(equal, "float32"), 1) + total
    return total
