"""Faults that are planted into a worker of either layer, in the place of one of its methods."""


def moving_no(side, pools):
    """Return ``move_kv`` of pools that leaves the buffers of a side as they are."""
    original = pools.move_kv

    def move_kv(self, moved, *arguments):
        if moved is not side:
            original(self, moved, *arguments)

    return move_kv


def keeping_what_is_borrowed(self, topk, num_steps):
    """Borrow draft slots and give none of them back."""
    return self.allocate_verify_slots(topk * num_steps)
