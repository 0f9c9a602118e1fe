// The names of the values of enumerations in StableHLO's text, by their numbers.
#pragma once

#include <array>

namespace mydev::stablehlo {

inline constexpr std::array kDirectionNames = {"EQ", "NE", "GE", "GT", "LE", "LT"};
inline constexpr std::array kComparisonNames = {"NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"};
inline constexpr std::array kFftNames = {"FFT", "IFFT", "RFFT", "IRFFT"};
inline constexpr std::array kPrecisionNames = {"DEFAULT", "HIGH", "HIGHEST"};
inline constexpr std::array kRngAlgorithmNames = {"DEFAULT", "THREE_FRY", "PHILOX"};
inline constexpr std::array kRngDistributionNames = {"", "UNIFORM", "NORMAL"};
inline constexpr std::array kTransposeNames = {"TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
inline constexpr std::array kAccuracyModeNames = {"DEFAULT", "HIGHEST", "TOLERANCE"};

}  // namespace mydev::stablehlo
