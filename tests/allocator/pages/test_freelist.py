import numpy as np

from allocator.pages.freelist import FreeList

BASE = 1000


def make(*pfns: int) -> FreeList:
    made = FreeList(np.zeros(5000, dtype=np.int32), BASE)
    for pfn in pfns:
        made.push_tail(pfn)
    return made


def test_heads_come_first_and_tails_last():
    blocks = make(1001, 1002)
    blocks.push_head(1003)
    blocks.push_heads(np.array([1004, 1005]))
    blocks.push_tails(np.array([1006, 1007]))
    assert blocks.blocks().tolist() == [1005, 1004, 1003, 1001, 1002, 1006, 1007]
    assert len(blocks) == 7


def test_a_block_leaves_from_anywhere_and_leaves_no_trace():
    blocks = make(*range(1001, 1011))
    blocks.remove(1004)
    blocks.removes(np.array([1001, 1010]))
    assert blocks.head() == 1002
    assert blocks.pops(3).tolist() == [1002, 1003, 1005]
    assert blocks.blocks().tolist() == [1006, 1007, 1008, 1009]


def test_the_list_grows_at_both_ends():
    blocks = make()
    blocks.push_heads(np.arange(2000, 3000))
    blocks.push_tails(np.arange(3000, 4500))
    blocks.remove(2500)
    assert blocks.pops(2).tolist() == [2999, 2998]
    assert len(blocks) == 2497
    blocks.push_head(2500)
    assert blocks.pop() == 2500


def test_an_untouched_range_is_one_entry_until_it_is_taken():
    blocks = make(1001)
    blocks.push_run(range(2048, 6000, 1024))
    blocks.push_tail(1002)
    assert blocks.blocks().tolist() == [1001, 2048, 3072, 4096, 5120, 1002]
    assert blocks.blocks(limit=2).tolist() == [1001, 2048]
    blocks.remove_untouched(4096)
    assert blocks.pops(3).tolist() == [1001, 2048, 3072]
    assert blocks.pop() == 5120
    assert blocks.pop() == 1002
    assert blocks.pop() == -1


def test_an_empty_list_gives_nothing():
    blocks = make()
    assert blocks.pop() == -1
    assert blocks.pops(5).tolist() == []
    assert blocks.blocks().tolist() == []
