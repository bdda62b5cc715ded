% nothing
% expect 1: no case here
