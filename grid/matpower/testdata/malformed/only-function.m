function mpc = three
% expect 1: version is missing
