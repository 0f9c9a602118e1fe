// The plans of products of matrices.
#include <bit>

#include "device_kernels/base/bound_frame.h"
#include "device_kernels/kernels/network_kernels.h"
#include "device_kernels/templates/texts.h"
#include "device_kernels/text/template_kernel.h"

namespace mydev::device_kernels {

namespace {

constexpr uint64_t kRealProducts = MYDEV_DTYPE_BIT(MYDEV_F16) | MYDEV_DTYPE_BIT(MYDEV_BF16) |
                                   MYDEV_DTYPE_BIT(MYDEV_F32) | MYDEV_DTYPE_BIT(MYDEV_F64) | MYDEV_DTYPE_BIT(MYDEV_S8) |
                                   MYDEV_DTYPE_BIT(MYDEV_S16) | MYDEV_DTYPE_BIT(MYDEV_S32) |
                                   MYDEV_DTYPE_BIT(MYDEV_S64) | MYDEV_DTYPE_BIT(MYDEV_U8);

// A product's operands and numbers.
struct Product {
  const BoundFrame frame;
  const mydev_buffer &out, &a, &b;
  bool has_addend = frame.frame().num_inputs > 2 && frame.frame().buffers[3].data != nullptr;
  const mydev_buffer& addend = has_addend ? frame.frame().buffers[3] : out;
  int32_t last = out.rank - 1;
  int64_t batch = out.rank == 3 ? out.sizes[0] : 1, m = out.sizes[last - 1], n = out.sizes[last];
  double alpha = frame.number("alpha"), beta = frame.number("beta");

  explicit Product(const Request& request)
      : frame(contract_of(request), request.frame),
        out(request.buffer(0)),
        a(request.buffer(1)),
        b(request.buffer(2)) {}

  // On processors, whose loops are over elements that lie side by side.
  bool is_by_k(const Request& request) const {
    return request.language.loops && a.strides[last] == 1 && b.strides[last - 1] == 1 && b.strides[last] != 1 &&
           a.sizes[last] >= request.language.lanes;
  }
  void give(Call& call) const {
    call.give(Call::Memory{0}).give(Call::Memory{1}).give(Call::Memory{2}).give(Call::Memory{has_addend ? 3 : 0});
    call.give(batch).give(m).give(n).give(alpha == 0 ? 0 : a.sizes[last]);
    for (const mydev_buffer* matrix : {&out, &a, &b, &addend}) {
      call.give(matrix->rank == 3 ? matrix->strides[0] : 0).give(matrix->strides[last - 1]).give(matrix->strides[last]);
    }
  }
};

Call complex_product(const Request& request, const Product& product) {
  const bool wide = dtype_of(product.out) == MYDEV_C128;
  TemplateUse use(request, kComplexMatmulText, "complex_matmul");
  use.type('T', dtype_of(product.out)).choose("WIDE", wide ? 1 : 0).choose("READS", product.beta != 0 ? 1 : 0);
  Call call = use.call({1, 0, 3, std::string(18, 'i')},
                       rows_of(request, product.batch * product.m, product.n, request.language.block));
  product.give(call);
  for (const double number : {product.alpha, product.beta}) {
    call.give(wide ? std::bit_cast<int64_t>(number) : int64_t{std::bit_cast<uint32_t>(static_cast<float>(number))});
  }
  return call;
}

}  // namespace

const mydev_limits kConvolutionLimits = {.struct_size = sizeof(mydev_limits), .dtypes = kRealProducts, .rank_max = -1};
const mydev_limits kMatmulLimits = {.struct_size = sizeof(mydev_limits),
                                    .dtypes = kRealProducts | MYDEV_DTYPE_BIT(MYDEV_C64) | MYDEV_DTYPE_BIT(MYDEV_C128) |
                                              MYDEV_DTYPE_BIT(MYDEV_F8E4M3FN) | MYDEV_DTYPE_BIT(MYDEV_F8E5M2),
                                    .rank_max = -1};

Work plan_matmul(const Request& request) {
  const Product product(request);
  Work work;
  if (product.batch * product.m * product.n == 0) return work;
  if (is_complex(domain_of(dtype_of(product.out)))) {
    work.calls.push_back(complex_product(request, product));
    return work;
  }
  const bool by_k = product.is_by_k(request);
  TemplateUse use(request, by_k ? kMatmulByKText : kMatmulText, by_k ? "matmul_by_k" : "matmul");
  use.type('R', dtype_of(product.out)).type('T', dtype_of(product.a)).choose("READS", product.beta != 0 ? 1 : 0);
  if (!by_k) use.choose("DENSE", product.b.strides[product.last] == 1 ? 1 : 0);
  const int64_t rows = product.batch * ((product.m + 3) / 4);
  Call call =
      use.call({1, 0, 3, "iiiiiiiiiiiiiiiicc"}, by_k ? groups(request, static_cast<uint64_t>(rows * product.n))
                                                     : rows_of(request, rows, product.n, request.language.block));
  product.give(call);
  use.give_number(call, product.alpha);
  use.give_number(call, product.beta);
  work.calls.push_back(std::move(call));
  return work;
}

}  // namespace mydev::device_kernels
