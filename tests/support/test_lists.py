"""Lists as people write them."""

from taccl.support.lists import equal, few, grouped, joined, natural, spans


def test_few_words_are_all_named_and_of_many_the_first():
    assert few(["a", "b"]) == "a, b"
    assert few(range(10)) == "0, 1, 2, 3, 4, 5, 6, 7 and 2 more"
    assert few("abcd", 3, "; ") == "a; b; c and 1 more"


def test_runs_of_numbers_are_spans():
    assert spans([0, 1, 2, 3, 5, 7, 8]) == ["0-3", "5", "7-8"]
    assert spans([]) == []


def test_numbers_in_names_sort_by_their_value():
    assert sorted(["mlx5_10", "mlx5_2", "eth0"], key=natural) == ["eth0", "mlx5_2", "mlx5_10"]


def test_indices_group_by_key_in_the_order_of_the_first():
    assert grouped(4, lambda index: index % 2) == {0: [0, 2], 1: [1, 3]}
    assert equal(["x", "y", "x"]) == [[0, 2], [1]]


def test_pairs_join_items_into_parts_in_the_order_of_the_first():
    assert joined(range(6), [(4, 0), (2, 3), (5, 4)]) == [[0, 4, 5], [1], [2, 3]]
    assert joined("ba", []) == [["b"], ["a"]]
