// The loops of wide_product.h for one instruction set.
//
// A task is a block of the result. Its sums stay in the second-level cache while blocks of both operands along k are
// packed there in panels (packed_product.h). They are numbers of the type that is computed in, unsigned for integers
// since that wraps around. Two integers of 8 or 16 bits, neighbours along k, are packed to a number: all processors
// multiply such pairs and add the products up at once, without loss. Complex matrices are packed as two, of real and of
// imaginary parts, and multiplied by four real products.
#include "host_kernels/wide_product.h"

#include <algorithm>

#include "host_kernels/isa/products/integer_dots.h"
#include "host_kernels/isa/products/packed_product.h"
#include "host_kernels/isa/simd/complex.h"
#include "host_kernels/isa/simd/transposed_tile.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

constexpr int64_t kBlockRows = 144, kBlockDepth = 256, kBlockColumnBytes = 1024;  // the depth: in numbers

// Elements as they lie, what is computed in, and the conversions. A number of a panel is made of kDepth factors, `step`
// apart, of which only the first is there at the end of an odd k.
template <typename T, typename C>
struct Real {
  using Factor = T;
  using Element = T;
  using Panels = Whole<C>;
  using Number = C;
  static constexpr int64_t kParts = 1, kDepth = 1;
  static Number packed(const Factor* at, int64_t /*step*/, int64_t /*part*/) { return static_cast<Number>(*at); }
  static Number last(const Factor* /*at*/, int64_t /*part*/) { return 0; }
  static Number part(Element value, int64_t /*part*/) { return static_cast<Number>(value); }
  static Element joined(const Number (&parts)[kParts]) { return static_cast<Element>(parts[0]); }
  static Number factor(double value) {
    if constexpr (std::is_floating_point_v<T>) return static_cast<Number>(value);
    return static_cast<Number>(static_cast<int64_t>(value));
  }
};
template <typename T, typename R>
struct Short : Real<R, uint32_t> {
  using Factor = T;
  using Panels = ShortPairs;
  static constexpr int64_t kDepth = 2;
  static uint32_t packed(const Factor* at, int64_t step, int64_t /*part*/) { return ShortPairs::pair(at[0], at[step]); }
  static uint32_t last(const Factor* at, int64_t /*part*/) { return ShortPairs::pair(*at, 0); }
};
template <typename C>
struct Pair {
  using Factor = Complex<C>;
  using Element = Complex<C>;
  using Panels = Whole<C>;
  using Number = C;
  static constexpr int64_t kParts = 2, kDepth = 1;
  static Number packed(const Factor* at, int64_t /*step*/, int64_t part) { return Pair::part(*at, part); }
  static Number last(const Factor* /*at*/, int64_t /*part*/) { return 0; }
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
  using Factor = typename E::Factor;
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
      const int64_t rows = block_rows(p), columns = block_columns(p);
      const int64_t depth = std::min(blocks(p.k, E::kDepth), kBlockDepth);
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
    constexpr int64_t kFactors = kBlockDepth * E::kDepth;
    for (int64_t k = 0; k < p_.k; k += kFactors) add_block(k, std::min(kFactors, p_.k - k));
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

  void add_block(int64_t k, int64_t factors) const {
    const int64_t depth = blocks(factors, E::kDepth);
    for (int64_t part = 0; part < E::kParts; ++part) {
      const Factor* const a = at<Factor>(p_.a, row_, k);
      const Factor* const b = at<Factor>(p_.b, k, column_);
      pack<kPanelRows>(a, p_.a.row_stride, p_.a.col_stride, rows_, factors, part, a_[part]);
      pack<kColumns>(b, p_.b.col_stride, p_.b.row_stride, columns_, factors, part, b_[part]);
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
      const auto& functions =
          kPanelFunctions<typename E::Panels, /*kAdd=*/true>[columns_ - column > kLanes<Number> ? 1 : 0];
      for (int64_t row = 0; row < rows_; row += kPanelRows) {
        const int64_t rows = std::min<int64_t>(kPanelRows, rows_ - row);
        functions[static_cast<size_t>(rows - 1)](a + row * depth, b + column * depth, kColumns, depth,
                                                 sums + row * width_ + column, width_);
      }
    }
  }

  // Packs lines of factors, so many to a line, in panels of kLines lines, which lie interleaved. Lines beyond the
  // matrix are zeros.
  template <int64_t kLines>
  static void pack(const Factor* from, int64_t line_stride, int64_t stride, int64_t lines, int64_t factors,
                   int64_t part, Number* to) {
    for (int64_t line = 0; line < lines; line += kLines, from += kLines * line_stride) {
      const int64_t count = std::min(kLines, lines - line);
      if (count < kLines) {
        to = pack_panel<kLines>(from, line_stride, stride, count, factors, part, to);
      } else if (line_stride == 1) {
        to = pack_panel<kLines>(from, kOne, stride, kAll<kLines>, factors, part, to);
      } else {
        if constexpr (E::kDepth == 2) {
          if (stride == 1) {
            to = pack_transposed<kLines>(from, line_stride, factors, to);
            continue;
          }
        }
        to = pack_panel<kLines>(from, line_stride, stride, kAll<kLines>, factors, part, to);
      }
    }
  }

  // The same where a line's factors lie one behind the other: a block of lines is written as words, and then
  // transposed.
  template <int64_t kLines>
  static Number* pack_transposed(const Factor* from, int64_t line_stride, int64_t factors, Number* to) {
    constexpr int64_t kWords = kTile<uint32_t>, kSide = Block<uint32_t>::kSide;
    Number words[kLines][kWords];
    for (int64_t p = 0; p < factors; p += 2 * kWords) {
      const int64_t count = std::min(2 * kWords, factors - p), depth = (count + 1) / 2;
      for (int64_t line = 0; line < kLines; ++line) {
        const Factor* const at = from + line * line_stride + p;
        for (int64_t i = 0; i < count / 2; ++i) words[line][i] = E::packed(at + 2 * i, 1, 0);
        if (count % 2 != 0) words[line][depth - 1] = E::last(at + count - 1, 0);
      }
      for (int64_t line = 0; line < kLines; line += kSide) {
        const int64_t lines = std::min(kSide, kLines - line);
        transpose_into(to + line, kLines, reinterpret_cast<const char*>(words[line]), sizeof(words[line]), depth,
                       lines);
      }
      to += depth * kLines;
    }
    return to;
  }

  // Strides and counts that the compiler knows are worth loops of their own.
  static constexpr std::integral_constant<int64_t, 1> kOne{};
  template <int64_t kLines>
  static constexpr std::integral_constant<int64_t, kLines> kAll{};

  template <int64_t kLines, typename LineStride, typename Stride, typename Count>
  static Number* pack_panel(const Factor* from, LineStride line_stride, Stride stride, Count count, int64_t factors,
                            int64_t part, Number* to) {
    int64_t p = 0;
    for (; p + E::kDepth <= factors; p += E::kDepth, to += kLines) {
      for (int64_t i = 0; i < count; ++i) to[i] = E::packed(from + p * stride + i * line_stride, stride, part);
      for (int64_t i = count; i < kLines; ++i) to[i] = 0;
    }
    for (; p < factors; p += E::kDepth, to += kLines) {
      for (int64_t i = 0; i < count; ++i) to[i] = E::last(from + p * stride + i * line_stride, part);
      for (int64_t i = count; i < kLines; ++i) to[i] = 0;
    }
    return to;
  }

  // result(sum, addend) of each part; `addend` is what is read of, if it reads any.
  template <typename Result>
  void write(const Result& result, const WideMatrix& addend) const {
    for (int64_t r = 0; r < rows_; ++r) {
      Element* to = at<Element>(p_.out, row_ + r, column_);
      const Element* added = at<Element>(addend, row_ + r, column_);
      for (int64_t c = 0; c < columns_; ++c) {
        Number parts[E::kParts];
        for (int64_t part = 0; part < E::kParts; ++part) {
          parts[part] = result(sums_[part][r * width_ + c], E::part(added[c * addend.col_stride], part));
        }
        to[c * p_.out.col_stride] = E::joined(parts);
      }
    }
  }

  template <typename T>
  static T* at(const WideMatrix& matrix, int64_t row, int64_t column) {
    return static_cast<T*>(matrix.data) + row * matrix.row_stride + column * matrix.col_stride;
  }

  const WideProduct& p_;
  int64_t row_, column_, rows_, columns_;
  int64_t width_;  // the columns as whole panels
  Number *sums_[E::kParts], *a_[E::kParts], *b_[E::kParts];
};

template <typename E>
void dots_of(const WideProduct& p, int64_t begin, int64_t end) {
  using Factor = typename E::Factor;
  using Element = typename E::Element;
  const uint32_t alpha = E::factor(p.alpha), beta = E::factor(p.beta);
  const auto* const a = static_cast<const Factor*>(p.a.data);
  const auto* const b = static_cast<const Factor*>(p.b.data);
  for (int64_t column = begin; column < end; column += kIntegerDotColumns) {
    const int64_t columns = std::min<int64_t>(kIntegerDotColumns, end - column);
    for (int64_t row = 0; row < p.m; row += kIntegerDotRows) {
      const int64_t rows = std::min<int64_t>(kIntegerDotRows, p.m - row);
      IntegerDots dots;
      kIntegerDotFunctions<Factor>[static_cast<size_t>(rows - 1)][static_cast<size_t>(columns - 1)](
          a + row* p.a.row_stride, p.a.row_stride, b + column* p.b.col_stride, p.b.col_stride, p.k, dots);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) {
          const auto at = [&](const WideMatrix& matrix) -> Element& {
            return static_cast<Element*>(matrix.data)[(row + r) * matrix.row_stride + (column + c) * matrix.col_stride];
          };
          uint32_t value = alpha * dots[r][c];
          if (p.addend.data != nullptr) value += beta * E::part(at(p.addend), 0);
          at(p.out) = static_cast<Element>(value);
        }
      }
    }
  }
}

struct Functions {
  int64_t (*tasks)(const WideProduct&);
  uint64_t (*task_bytes)(const WideProduct&);
  void (*run)(const WideProduct&, int64_t, void*);
  void (*dots)(const WideProduct&, int64_t, int64_t) = nullptr;
};
template <typename E>
constexpr Functions kFunctionsOf = {Product<E>::tasks, Product<E>::task_bytes, Product<E>::run};
template <typename T, typename R>
constexpr Functions kFunctionsOf<Short<T, R>> = {Product<Short<T, R>>::tasks, Product<Short<T, R>>::task_bytes,
                                                 Product<Short<T, R>>::run, dots_of<Short<T, R>>};

const Functions& functions_of(const WideProduct& product) {
  const bool is_widened = product.out_dtype == MYDEV_S32;
  switch (product.dtype) {
    case MYDEV_F32:
      return kFunctionsOf<Real<float, float>>;
    case MYDEV_F64:
      return kFunctionsOf<Real<double, double>>;
    case MYDEV_S8:
      return is_widened ? kFunctionsOf<Short<int8_t, int32_t>> : kFunctionsOf<Short<int8_t, int8_t>>;
    case MYDEV_U8:
      return is_widened ? kFunctionsOf<Short<uint8_t, int32_t>> : kFunctionsOf<Short<uint8_t, uint8_t>>;
    case MYDEV_S16:
      return kFunctionsOf<Short<int16_t, int16_t>>;
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
    [](const WideProduct& product) { return functions_of(product).tasks(product); },
    [](const WideProduct& product) { return functions_of(product).task_bytes(product); },
    [](const WideProduct& product, int64_t task, void* memory) { functions_of(product).run(product, task, memory); },
    [](const WideProduct& product, int64_t begin, int64_t end) { functions_of(product).dots(product, begin, end); }};

}  // namespace mydev::kernels::MYDEV_ISA
