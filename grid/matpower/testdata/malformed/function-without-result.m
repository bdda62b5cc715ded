function three
% expect 1: no result
