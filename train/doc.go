// Package train turns a Pareto dataset into a map. It trains E_x, E_o, D_u and D_s by the losses of "Manifold
// Learning via Structured Loss System". It then refines D_u on rollout latents ("Action Decoder Training Pipeline",
// eq. du_obj). It chooses the codes of M*, and calibrates the navigator and its certificates on held-out scenarios.
//
// The central function is Run. It drives a backend.Trainer, which does all the arithmetic on its hardware. This
// package does the rest: normalisation, the split by scenario, neighbourhoods in parameter space, the order of the
// data, the learning rate, checkpoints and calibration.
//
// # Determinism
//
// Every random choice (initial weights, split, order, drawn neighbours, codes) depends only on Options.Seed and its
// own place (phase, epoch, step), never on history. A run that was interrupted and resumed from its checkpoint
// therefore ends in bitwise the same model as an uninterrupted one.
package train
