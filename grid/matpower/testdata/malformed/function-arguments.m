function mpc = three(a
% expect 1: arguments is not closed
