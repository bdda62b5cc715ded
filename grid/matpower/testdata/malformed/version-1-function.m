function [baseMVA, bus, gen, branch, area, gencost] = case9
baseMVA = 100;
% expect 1: version 1 case file
