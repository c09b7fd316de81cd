// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// The predictors, one file each. catalog.cc names them.
#pragma once

#include <memory>

#include "prediction/predictor.h"

namespace spin::prediction {

// Blocks in random order, another one in each step and layer.
std::unique_ptr<Predictor> MakeRandom(const PredictorOptions& options);

// The full scan of the layer before, in this step.
std::unique_ptr<Predictor> MakePreviousLayer(const PredictorOptions& options);

// Of the full scans of up to five layers before, the one that is best at this budget. An oracle.
std::unique_ptr<Predictor> MakeBestPreviousLayer(const PredictorOptions& options);

// The full scan of the step before.
std::unique_ptr<Predictor> MakePreviousIteration(const PredictorOptions& options);

// The same, moved on by one slot: slot i as slot i - 1 was.
std::unique_ptr<Predictor> MakePreviousIterationOffset(const PredictorOptions& options);

// V and D, from kept scores only, as spind runs it: kernels/ does the work.
std::unique_ptr<Predictor> MakeSpin(const PredictorOptions& options);

// The same with one of the averages forgotten after each step.
std::unique_ptr<Predictor> MakeVerticalOnly(const PredictorOptions& options);
std::unique_ptr<Predictor> MakeDiagonalOnly(const PredictorOptions& options);

// The current query against mean keys of sub-blocks; no history.
std::unique_ptr<Predictor> MakeSubBlockMean(const PredictorOptions& options);

// Spin and that filter together: 0.8 (estimate + average of what it lacked) + 0.2 S.
std::unique_ptr<Predictor> MakeQueryAware(const PredictorOptions& options);

// The blocks with the most true top-K slots: no list of this length misses less. An oracle.
std::unique_ptr<Predictor> MakeBlockOracle(const PredictorOptions& options);

// Pooling A0 and A2 (predictor.h).
std::unique_ptr<Predictor> MakeSlotChoice(const PredictorOptions& options);
std::unique_ptr<Predictor> MakePooledAverage(const PredictorOptions& options);

}  // namespace spin::prediction
