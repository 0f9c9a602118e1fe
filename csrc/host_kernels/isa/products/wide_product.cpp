// The loops of wide_product.h for one instruction set.
//
// A task is a block of the result. Its sums stay in the second-level cache while blocks of both operands along k are
// packed there in panels (packed_product.h). They are numbers of the type that is computed in: 32 bits for narrower
// integers, unsigned since that wraps around. Complex matrices are packed as two, of real and of imaginary parts, and
// multiplied by four real products.
#include "host_kernels/wide_product.h"

#include <algorithm>

#include "host_kernels/isa/products/packed_product.h"
#include "host_kernels/isa/simd/complex.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

constexpr int64_t kBlockRows = 144, kBlockDepth = 256, kBlockColumnBytes = 1024;

// An element as it lies: the type that it is computed in, and its conversions.
template <typename T, typename C>
struct Real {
  using Element = T;
  using Number = C;
  static constexpr int64_t kParts = 1;
  static Number part(Element value, int64_t /*part*/) { return static_cast<Number>(value); }
  static Element joined(const Number (&parts)[kParts]) { return static_cast<Element>(parts[0]); }
  static Number factor(double value) {
    if constexpr (std::is_floating_point_v<T>) return static_cast<Number>(value);
    return static_cast<Number>(static_cast<int64_t>(value));
  }
};
template <typename C>
struct Pair {
  using Element = Complex<C>;
  using Number = C;
  static constexpr int64_t kParts = 2;
  static Number part(Element value, int64_t part) { return part == 0 ? value.re : value.im; }
  static Element joined(const Number (&parts)[kParts]) { return {parts[0], parts[1]}; }
  static Number factor(double value) { return static_cast<Number>(value); }
};

int64_t blocks(int64_t size, int64_t block) {
  return (size + block - 1) / block;
}
int64_t whole(int64_t size, int64_t unit) {
  return blocks(size, unit) * unit;
}

template <typename E>
class Product {
 public:
  using Number = typename E::Number;
  using Element = typename E::Element;

  static int64_t tasks(const WideProduct& p) { return blocks(p.m, block_rows(p)) * blocks(p.n, block_columns(p)); }

  static uint64_t task_bytes(const WideProduct& p) {
    const Sizes sizes(p);
    return static_cast<uint64_t>(E::kParts * (sizes.sums + sizes.a + sizes.b)) * sizeof(Number);
  }

  static void run(const WideProduct& p, int64_t task, void* memory) {
    const int64_t across = blocks(p.n, block_columns(p));
    const int64_t row = task / across * block_rows(p), column = task % across * block_columns(p);
    Product(p, row, column, static_cast<Number*>(memory)).compute();
  }

 private:
  static constexpr int64_t kColumns = kPanelColumns<Number>;

  // All blocks have about the same size. They are an even number, for pairs of threads.
  static int64_t block_rows(const WideProduct& p) { return whole(blocks(p.m, blocks(p.m, kBlockRows)), kPanelRows); }
  static int64_t block_columns(const WideProduct& p) {
    constexpr int64_t kMost = kBlockColumnBytes / static_cast<int64_t>(sizeof(Number)) / E::kParts;
    const int64_t down = blocks(p.m, kBlockRows), across = blocks(p.n, kMost);
    return whole(blocks(p.n, across + down * across % 2), kColumns);
  }

  // Elements of a part, each a multiple of 64.
  struct Sizes {
    int64_t sums, a, b;
    explicit Sizes(const WideProduct& p) {
      const int64_t rows = block_rows(p), depth = std::min(p.k, kBlockDepth), columns = block_columns(p);
      sums = whole(rows * columns, 64);
      a = whole(rows * depth, 64);
      b = whole(depth * columns, 64);
    }
  };

  Product(const WideProduct& p, int64_t row, int64_t column, Number* memory)
      : p_(p),
        row_(row),
        column_(column),
        rows_(std::min(block_rows(p), p.m - row)),
        columns_(std::min(block_columns(p), p.n - column)),
        width_(whole(columns_, kColumns)) {
    const Sizes sizes(p);
    for (int64_t part = 0; part < E::kParts; ++part) {
      sums_[part] = memory + part * sizes.sums;
      a_[part] = memory + E::kParts * sizes.sums + part * sizes.a;
      b_[part] = memory + E::kParts * (sizes.sums + sizes.a) + part * sizes.b;
    }
  }

  void compute() const {
    for (int64_t part = 0; part < E::kParts; ++part) std::fill_n(sums_[part], rows_ * width_, Number{0});
    for (int64_t k = 0; k < p_.k; k += kBlockDepth) add_block(k, std::min(kBlockDepth, p_.k - k));
    if (p_.addend.data == nullptr && p_.alpha == 1) {
      write([](Number sum, Number /*addend*/) { return sum; }, p_.out);
    } else if (p_.addend.data == nullptr) {
      write([alpha = E::factor(p_.alpha)](Number sum, Number /*addend*/) { return alpha * sum; }, p_.out);
    } else {
      write([alpha = E::factor(p_.alpha), beta = E::factor(p_.beta)](
                Number sum, Number addend) { return alpha * sum + beta * addend; },
            p_.addend);
    }
  }

  void add_block(int64_t k, int64_t depth) const {
    for (int64_t part = 0; part < E::kParts; ++part) {
      const auto convert = [part](Element value) { return E::part(value, part); };
      pack<kPanelRows>(at(p_.a, row_, k), p_.a.row_stride, p_.a.col_stride, rows_, depth, a_[part], convert);
      pack<kColumns>(at(p_.b, k, column_), p_.b.col_stride, p_.b.row_stride, columns_, depth, b_[part], convert);
    }
    add_product(a_[0], b_[0], depth, sums_[0]);
    if constexpr (E::kParts == 2) {
      add_product(a_[0], b_[1], depth, sums_[1]);
      add_product(a_[1], b_[0], depth, sums_[1]);
      for (int64_t i = 0; i < whole(rows_, kPanelRows) * depth; ++i) a_[1][i] = -a_[1][i];
      add_product(a_[1], b_[1], depth, sums_[0]);
    }
  }

  void add_product(const Number* a, const Number* b, int64_t depth, Number* sums) const {
    for (int64_t column = 0; column < columns_; column += kColumns) {
      const auto& functions = kPanelFunctions<Number, /*kAdd=*/true>[columns_ - column > kLanes<Number> ? 1 : 0];
      for (int64_t row = 0; row < rows_; row += kPanelRows) {
        const int64_t rows = std::min<int64_t>(kPanelRows, rows_ - row);
        functions[static_cast<size_t>(rows - 1)](a + row * depth, b + column * depth, kColumns, depth,
                                                 sums + row * width_ + column, width_);
      }
    }
  }

  // Packs lines of elements, `depth` to a line, in panels of kLines lines, which lie interleaved. Lines beyond the
  // matrix are zeros.
  template <int64_t kLines, typename Convert>
  static void pack(const Element* from, int64_t line_stride, int64_t stride, int64_t lines, int64_t depth, Number* to,
                   const Convert& convert) {
    for (int64_t line = 0; line < lines; line += kLines, from += kLines * line_stride) {
      const int64_t count = std::min(kLines, lines - line);
      if (count == kLines && line_stride == 1) {
        for (int64_t p = 0; p < depth; ++p, to += kLines) {
          for (int64_t i = 0; i < kLines; ++i) to[i] = convert(from[p * stride + i]);
        }
      } else if (count == kLines) {
        for (int64_t p = 0; p < depth; ++p, to += kLines) {
          for (int64_t i = 0; i < kLines; ++i) to[i] = convert(from[p * stride + i * line_stride]);
        }
      } else {
        for (int64_t p = 0; p < depth; ++p, to += kLines) {
          for (int64_t i = 0; i < kLines; ++i) {
            to[i] = i < count ? convert(from[p * stride + i * line_stride]) : Number{0};
          }
        }
      }
    }
  }

  // result(sum, addend) of each part; `addend` is what is read of, if it reads any.
  template <typename Result>
  void write(const Result& result, const WideMatrix& addend) const {
    for (int64_t r = 0; r < rows_; ++r) {
      Element* to = at(p_.out, row_ + r, column_);
      const Element* added = at(addend, row_ + r, column_);
      for (int64_t c = 0; c < columns_; ++c) {
        Number parts[E::kParts];
        for (int64_t part = 0; part < E::kParts; ++part) {
          parts[part] = result(sums_[part][r * width_ + c], E::part(added[c * addend.col_stride], part));
        }
        to[c * p_.out.col_stride] = E::joined(parts);
      }
    }
  }

  static Element* at(const WideMatrix& matrix, int64_t row, int64_t column) {
    return static_cast<Element*>(matrix.data) + row * matrix.row_stride + column * matrix.col_stride;
  }

  const WideProduct& p_;
  int64_t row_, column_, rows_, columns_;
  int64_t width_;  // the columns as whole panels
  Number *sums_[E::kParts], *a_[E::kParts], *b_[E::kParts];
};

struct Functions {
  int64_t (*tasks)(const WideProduct&);
  uint64_t (*task_bytes)(const WideProduct&);
  void (*run)(const WideProduct&, int64_t, void*);
};
template <typename E>
constexpr Functions kFunctionsOf = {Product<E>::tasks, Product<E>::task_bytes, Product<E>::run};

const Functions& functions_of(mydev_dtype dtype) {
  switch (dtype) {
    case MYDEV_F32:
      return kFunctionsOf<Real<float, float>>;
    case MYDEV_F64:
      return kFunctionsOf<Real<double, double>>;
    case MYDEV_S8:
      return kFunctionsOf<Real<int8_t, uint32_t>>;
    case MYDEV_U8:
      return kFunctionsOf<Real<uint8_t, uint32_t>>;
    case MYDEV_S16:
      return kFunctionsOf<Real<int16_t, uint32_t>>;
    case MYDEV_S32:
      return kFunctionsOf<Real<int32_t, uint32_t>>;
    case MYDEV_S64:
      return kFunctionsOf<Real<int64_t, uint64_t>>;
    case MYDEV_C64:
      return kFunctionsOf<Pair<float>>;
    default:  // MYDEV_C128
      return kFunctionsOf<Pair<double>>;
  }
}

}  // namespace

const WideProductFunctions wide_product = {
    [](const WideProduct& product) { return functions_of(product.dtype).tasks(product); },
    [](const WideProduct& product) { return functions_of(product.dtype).task_bytes(product); },
    [](const WideProduct& product, int64_t task, void* memory) {
      functions_of(product.dtype).run(product, task, memory);
    }};

}  // namespace mydev::kernels::MYDEV_ISA
