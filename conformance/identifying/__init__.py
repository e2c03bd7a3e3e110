"""Which named behaviours a kubelet has: short histories that tell them apart, and what a subject
shows of them."""
