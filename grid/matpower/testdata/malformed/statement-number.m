42
% expect 1: where a statement should begin
