function mpc = three
[a, b] = size(3);
% expect 2: several results
