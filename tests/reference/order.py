"""calculate_order() for one size, loop by loop: what the vectorised rules must equal."""

MAX_OBJECTS = 32767


def get_order(size: int, page: int) -> int:
    order = 0
    while page << order < size:
        order += 1
    return order


def first_fit(size: int, page: int, low: int, high: int, fraction: int) -> int:
    for order in range(low, high + 1):
        slab = page << order
        if slab % size <= slab // fraction:
            return order
    return max(low, high + 1)


def fractions_min_objects(
    size: int, page: int, top: int, low: int, high: int, wanted: int
) -> int | None:
    if (page << low) // size > MAX_OBJECTS:
        order = get_order(size * MAX_OBJECTS, page) - 1
        return order if order <= top else None
    objects = min(wanted, (page << high) // size)
    while objects > 1:
        start = max(low, get_order(objects * size, page))
        for fraction in (16, 8, 4):
            order = first_fit(size, page, start, high, fraction)
            if order <= high:
                return order
        objects -= 1
    start = max(low, get_order(size, page))
    return start if start <= top else None


def fractions(size: int, page: int, top: int, low: int, high: int, wanted: int) -> int | None:
    objects = min(wanted, max((page << high) // size, 1))
    start = max(low, get_order(objects * size, page))
    if (page << start) // size > MAX_OBJECTS:
        return get_order(size * MAX_OBJECTS, page) - 1
    for fraction in (16, 8, 4, 2):
        order = first_fit(size, page, start, high, fraction)
        if order <= high:
            return order
    order = get_order(size, page)
    return order if order <= top else None


def least_waste(size: int, page: int, top: int, low: int, high: int, wanted: int) -> int | None:
    if wanted * size > page << 3:
        return 3 if (page << 3) // size else None
    if wanted * size <= page:
        return low
    objects = min(wanted, (page << high) // size)
    while objects >= 1:
        start = max(low, get_order(objects * size, page))
        found = [((page << order) % size, order) for order in range(start, high + 1)]
        if found:
            return min(found)[1]
        objects -= 1
    start = max(low, get_order(size, page))
    found = [((page << order) % size, order) for order in range(start, top + 1)]
    return min(found)[1] if found else None
