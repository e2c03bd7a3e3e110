"""A device plugin for a kubelet in the loop: its messages, and the plugin itself."""
