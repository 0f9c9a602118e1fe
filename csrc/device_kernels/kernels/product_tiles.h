// Products by tiles, on GPUs (templates/products/tile_words.inc), and sums of parts that groups have left in scratch.
// Thread-safe.
#pragma once

#include "device_kernels/base/portable_kernel.h"
#include "device_kernels/base/value_types.h"
#include "device_kernels/text/template_kernel.h"

namespace mydev::device_kernels {

// The dtype of sums in a domain.
mydev_dtype sum_dtype(Domain domain);

// The tiles of so many products, each with so many rows and columns: a group for each.
struct TileShape {
  int64_t squares = 1;  // of a thread, along each side: two where there are tiles enough
  int64_t step = 16;    // along k, which lie in the group's memory at a time
  int64_t count = 0;

  TileShape(const Request& request, Domain domain, int64_t products, int64_t rows, int64_t columns);
  // The parts that k steps along k are shared out in, among groups of a tile; 1 where there are tiles enough.
  int64_t parts(const Request& request, int64_t k) const;
  // The steps of a part.
  int64_t steps(int64_t k, int64_t parts) const { return (k + parts * step - 1) / (parts * step) * step; }
  // Defines the words of tiles, of real numbers unless the use has a complex domain.
  void choose(TemplateUse& use) const;
  mydev_geometry groups(const Request& request, int64_t parts = 1) const;
};

// out[i] = the sum of the `parts` numbers sums[p * n + i], in their order. The sums are of the domain of `dtype`.
Call sum_of_parts(const Request& request, Call::Memory out, mydev_dtype dtype, Call::Memory sums, int64_t n,
                  int64_t parts);

}  // namespace mydev::device_kernels
