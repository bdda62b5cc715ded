function mpc = three
mpc.version = '2';
mpc.baseMVA = 100;
mpc.bus = [
	1 3 0 0 0 0 1 1 0 135 1 1.05 0.95;
	2 1 20 10 0 0 1 1 0 135 1 1.05 0.95;
	5 2 30 10 0 0 1 1 0 135 1 1.05 0.95;
% expect 4: not closed
