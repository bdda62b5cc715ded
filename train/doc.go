// Package train turns a Pareto dataset into a map: it trains E_x, E_o, D_u and
// D_s by the losses of "Manifold Learning via Structured Loss System", then
// refines D_u on rollout latents ("Action Decoder Training Pipeline", eq.
// du_obj), chooses the codes of M*, and calibrates what the navigator and its
// certificates need on held-out scenarios.
//
// The central function is Run; it drives a backend.Trainer, which does all the
// arithmetic on whatever hardware it stands for. What is here is everything
// around it: normalisation, the split by scenario, neighbourhoods in parameter
// space, the order of the data, the learning rate, checkpoints and calibration.
//
// # Determinism
//
// Every random choice (initial weights, split, order, drawn neighbours, codes)
// is a function of Options.Seed and of its own place (phase, epoch, step), never
// of what happened before. A run that was interrupted and resumed from its
// checkpoint therefore ends in bitwise the same model as one that was not.
package train
