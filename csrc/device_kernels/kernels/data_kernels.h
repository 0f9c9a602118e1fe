// The plans of kernels that move or order data, and of random numbers. Thread-safe.
#pragma once

#include "device_kernels/base/portable_kernel.h"

namespace mydev::device_kernels {

// The type in which elements of so many bytes are moved as they are: "u32".
const char* bits_type(int64_t bytes);
// A dtype that is moved as elements of this one are: of as many bytes.
mydev_dtype moved_as(const mydev_buffer& buffer);

// Adds the calls that put the sum up to each number, an s64, in its place.
void add_running_sums(const Request& request, Call::Memory numbers, int64_t count, Work& work);

Work plan_copy(const Request& request);
Work plan_cumulative(const Request& request);  // sums, products, maxima and minima up to each element
Work plan_index_select(const Request& request);
Work plan_concatenate(const Request& request);
Work plan_arange(const Request& request);
Work plan_embedding_backward(const Request& request);
Work plan_isin(const Request& request);
Work plan_gather(const Request& request);
Work plan_scatter(const Request& request);  // mydev.scatter and mydev.scatter_add
Work plan_index_copy(const Request& request);
Work plan_index_add(const Request& request);
Work plan_flat_index(const Request& request);
Work plan_triangle(const Request& request);
Work plan_gather_slices(const Request& request);
Work plan_scatter_slices(const Request& request);  // with each combination
Work plan_nonzero(const Request& request);
Work plan_sort(const Request& request);             // mydev.sort and mydev.topk
Work plan_random(const Request& request);           // uniform, normal and exponential numbers
Work plan_random_integers(const Request& request);  // and mydev.random_bernoulli
Work plan_dropout(const Request& request);
Work plan_threefry(const Request& request);
Work plan_random_bits(const Request& request);  // mydev.rng_bit_generator

}  // namespace mydev::device_kernels
