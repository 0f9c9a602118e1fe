"""``mydev kernels``: listing, checking, calling and beginning kernels of your own."""
