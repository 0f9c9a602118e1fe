// The plans of products of matrices.
#include <algorithm>
#include <array>
#include <utility>

#include "device_kernels/base/bound_frame.h"
#include "device_kernels/kernels/network_kernels.h"
#include "device_kernels/kernels/product_tiles.h"
#include "device_kernels/templates/texts.h"
#include "device_kernels/text/template_kernel.h"
#include "runtime/frame/frame.h"

namespace mydev::device_kernels {

namespace {

constexpr uint64_t kRealProducts = MYDEV_DTYPE_BIT(MYDEV_F16) | MYDEV_DTYPE_BIT(MYDEV_BF16) |
                                   MYDEV_DTYPE_BIT(MYDEV_F32) | MYDEV_DTYPE_BIT(MYDEV_F64) | MYDEV_DTYPE_BIT(MYDEV_S8) |
                                   MYDEV_DTYPE_BIT(MYDEV_S16) | MYDEV_DTYPE_BIT(MYDEV_S32) |
                                   MYDEV_DTYPE_BIT(MYDEV_S64) | MYDEV_DTYPE_BIT(MYDEV_U8);

constexpr int64_t kTile = 64;  // rows and columns, for each of a thread's squares
constexpr int64_t kTileThreads = 256;
constexpr int64_t kSkinny = 8;         // with fewer rows than these, most of a tile is empty
constexpr int64_t kFewestSteps = 256;  // along k, of a group that has a part of them
constexpr int64_t kMostParts = 64;

// A matrix among a product's operands: its memory, and its strides.
struct Matrix {
  Call::Memory memory;
  int64_t batch, row, column;

  static Matrix of(const mydev_frame& frame, int32_t place) {
    const mydev_buffer& buffer = frame.buffers[place];
    return {.memory = {place},
            .batch = buffer.rank == 3 ? buffer.strides[0] : 0,
            .row = buffer.strides[buffer.rank - 2],
            .column = buffer.strides[buffer.rank - 1]};
  }
  void transpose() { std::swap(row, column); }
};

// A product's operands and numbers.
struct Product {
  const BoundFrame frame;
  const mydev_buffer& result;
  int32_t last = result.rank - 1;
  bool has_addend = frame.frame().num_inputs > 2 && frame.frame().buffers[3].data != nullptr;
  Matrix out = Matrix::of(frame.frame(), 0), a = Matrix::of(frame.frame(), 1), b = Matrix::of(frame.frame(), 2),
         addend = Matrix::of(frame.frame(), has_addend ? 3 : 0);
  int64_t batch = result.rank == 3 ? result.sizes[0] : 1, m = result.sizes[last - 1], n = result.sizes[last];
  double alpha = frame.number("alpha"), beta = frame.number("beta");
  int64_t k = alpha == 0 ? 0 : frame.frame().buffers[1].sizes[last];
  mydev_dtype dtype = dtype_of(result), operands = dtype_of(frame.frame().buffers[1]);

  explicit Product(const Request& request) : frame(contract_of(request), request.frame), result(request.buffer(0)) {}

  // The columns of out are the rows of what is computed then.
  void transpose() {
    for (Matrix* matrix : {&out, &a, &b, &addend}) matrix->transpose();
    std::swap(a, b);
    std::swap(m, n);
  }
  // Rows of a and columns of b lie side by side in memory, and are long enough for a group.
  bool is_along_k(const Request& request) const {
    return a.column == 1 && b.row == 1 && b.column != 1 && k >= request.language.lanes;
  }
  // On processors, whose loops are over elements that lie side by side, and on GPUs for few rows.
  bool is_by_k(const Request& request) const {
    return (request.language.loops || (request.language.gpu && m <= kSkinny)) && is_along_k(request);
  }
  bool is_by_tiles(const Request& request) const {
    return request.language.gpu && (m * n >= kTileThreads || k >= kFewestSteps);
  }
  bool has_complex() const { return is_complex(domain_of(dtype)); }
  void give_strides(Call& call, std::initializer_list<const Matrix*> matrices) const {
    for (const Matrix* matrix : matrices) call.give(matrix->batch).give(matrix->row).give(matrix->column);
  }
  void give(Call& call) const {
    for (const Matrix* matrix : {&out, &a, &b, &addend}) call.give(matrix->memory);
    call.give(batch).give(m).give(n).give(k);
    give_strides(call, {&out, &a, &b, &addend});
  }
  void give_factors(const TemplateUse& use, Call& call) const {
    use.give_number(call, alpha);
    use.give_number(call, beta);
  }
};

Call complex_product(const Request& request, const Product& product) {
  TemplateUse use(request, kComplexMatmulText, "complex_matmul");
  use.type('T', product.dtype).choose("READS", product.beta != 0);
  Call call = use.call(rows_of(request, product.batch * product.m, product.n, request.language.block));
  product.give(call);
  product.give_factors(use, call);
  return call;
}

Call real_product(const Request& request, const Product& product) {
  const bool by_k = product.is_by_k(request);
  TemplateUse use(request, by_k ? kMatmulByKText : kMatmulText, by_k ? "matmul_by_k" : "matmul");
  use.type('R', product.dtype).type('T', product.operands).choose("READS", product.beta != 0);
  if (!by_k) use.choose("DENSE", product.b.column == 1);
  const int64_t rows = product.batch * ((product.m + 3) / 4);
  Call call =
      use.call(by_k ? groups(request, rows * product.n) : rows_of(request, rows, product.n, request.language.block));
  product.give(call);
  product.give_factors(use, call);
  return call;
}

// --- by tiles --------------------------------------------------------------------------------------------------------

// How tiles are shared out: `parts` groups have `steps` each along k.
struct Tiling {
  TileShape shape;
  int64_t parts = 1, steps;

  Tiling(const Request& request, const Product& product)
      : shape(request, domain_of(product.dtype), product.batch, product.m, product.n) {
    parts = shape.parts(request, product.k);
    steps = shape.steps(product.k, parts);
  }
};

TemplateUse use_of_product(const Request& request, const char* text, const char* name, const Product& product) {
  TemplateUse use(request, text, name);
  use.type('R', product.dtype).choose("READS", product.beta != 0);
  use.choose("COMPLEX", product.has_complex());
  return use;
}

// Leaves sums in scratch if there are several parts of them.
Call tile_product(const Request& request, Product product, const Tiling& tiling) {
  if (tiling.parts > 1) {
    product.dtype = sum_dtype(domain_of(product.dtype));
    product.out = {.memory = {}, .batch = product.m * product.n, .row = product.n, .column = 1};
    product.alpha = 1;
    product.beta = 0;
  }
  TemplateUse use = use_of_product(request, kMatmulTilesText, "matmul_tiles", product);
  use.type('T', product.operands);
  tiling.shape.choose(use);
  Call call = use.call(tiling.shape.groups(request, tiling.parts));
  product.give(call);
  product.give_factors(use, call);
  call.give(tiling.parts).give(tiling.steps);
  return call.give(product.a.column == 1).give(product.b.row == 1 && product.b.column != 1);
}

Call sum_of_product(const Request& request, const Product& product, const Tiling& tiling) {
  TemplateUse use = use_of_product(request, kProductPartsText, "product_parts", product);
  use.type('S', sum_dtype(use.domain()));
  Call call = use.call(rows_of(request, product.batch * product.m, product.n, request.language.block));
  call.give(product.out.memory).give(Call::Memory{}).give(product.addend.memory);
  call.give(product.batch).give(product.m).give(product.n);
  product.give_strides(call, {&product.out, &product.addend});
  product.give_factors(use, call);
  return call.give(tiling.parts);
}

void add_tile_product(const Request& request, const Product& product, Work& work) {
  const Tiling tiling(request, product);
  work.calls.push_back(tile_product(request, product, tiling));
  if (tiling.parts == 1) return;
  const int64_t numbers = tiling.parts * product.batch * product.m * product.n;
  work.scratch_bytes = static_cast<uint64_t>(numbers * dtype_size(sum_dtype(domain_of(product.dtype))));
  work.calls.push_back(sum_of_product(request, product, tiling));
}

}  // namespace

const mydev_limits kConvolutionLimits = {.struct_size = sizeof(mydev_limits), .dtypes = kRealProducts, .rank_max = -1};
const mydev_limits kMatmulLimits = {.struct_size = sizeof(mydev_limits),
                                    .dtypes = kRealProducts | MYDEV_DTYPE_BIT(MYDEV_C64) | MYDEV_DTYPE_BIT(MYDEV_C128) |
                                              MYDEV_DTYPE_BIT(MYDEV_F8E4M3FN) | MYDEV_DTYPE_BIT(MYDEV_F8E5M2),
                                    .rank_max = -1};

mydev_dtype sum_dtype(Domain domain) {
  constexpr std::array kDtypes = {MYDEV_F32, MYDEV_F64, MYDEV_S64, MYDEV_C64, MYDEV_C128};
  return kDtypes[static_cast<size_t>(domain)];
}

TileShape::TileShape(const Request& request, Domain domain, int64_t products, int64_t rows, int64_t columns) {
  const auto tiles = [&](int64_t side) {
    return products * ((rows + side - 1) / side) * ((columns + side - 1) / side);
  };
  const int64_t bytes = dtype_size(sum_dtype(domain));
  if (bytes == 4 && tiles(2 * kTile) >= groups_to_fill(request.device) / 2) squares = 2;
  if (squares == 2 || bytes > 8) step = 8;  // so that tiles have room, and threads enough registers
  count = tiles(squares * kTile);
}

int64_t TileShape::parts(const Request& request, int64_t k) const {
  const int64_t wanted = groups_to_fill(request.device);
  if (count >= wanted) return 1;
  return std::clamp<int64_t>(k / kFewestSteps, 1, std::min((wanted + count - 1) / count, kMostParts));
}

void TileShape::choose(TemplateUse& use) const {
  use.choose("SQUARES", squares).choose("STEPS", step);
  use.choose("COMPLEX", is_complex(use.domain()));
}

mydev_geometry TileShape::groups(const Request& request, int64_t parts) const {
  return make_geometry(request.language.grid(static_cast<uint64_t>(count * parts)), {kTileThreads, 1, 1});
}

Call sum_of_parts(const Request& request, Call::Memory out, mydev_dtype dtype, Call::Memory sums, int64_t n,
                  int64_t parts) {
  TemplateUse use(request, kProductPartsText, "product_parts");
  use.type('R', dtype).choose("READS", 0).choose("COMPLEX", is_complex(use.domain()));
  use.type('S', sum_dtype(use.domain()));
  Call call = use.call(rows_of(request, 1, n, request.language.block));
  call.give(out).give(sums).give(out).give(1).give(1).give(n);
  for (int matrix = 0; matrix < 2; ++matrix) call.give(n).give(n).give(1);
  use.give_number(call, 1);
  use.give_number(call, 0);
  return call.give(parts);
}

Work plan_matmul(const Request& request) {
  Product product(request);
  Work work;
  if (product.batch * product.m * product.n == 0) return work;
  // Threads write along the columns of out.
  const bool turned = product.out.row == 1 && product.out.column != 1;
  if (request.language.gpu && (turned || (product.n <= kSkinny && product.m > kSkinny))) product.transpose();
  if (!product.has_complex() && product.is_by_k(request)) {
    work.calls.push_back(real_product(request, product));
  } else if (product.is_by_tiles(request)) {
    add_tile_product(request, product, work);
  } else {
    work.calls.push_back(product.has_complex() ? complex_product(request, product) : real_product(request, product));
  }
  return work;
}

}  // namespace mydev::device_kernels
