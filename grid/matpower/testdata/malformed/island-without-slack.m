function mpc = three
mpc.version = '2';
mpc.baseMVA = 100;
mpc.bus = [
	1 3 0 0 0 0 1 1 0 135 1 1.05 0.95;
	2 1 20 10 0 0 1 1 0 135 1 1.05 0.95;
	5 2 30 10 0 0 1 1 0 135 1 1.05 0.95;
];
mpc.gen = [
	1 23 0 150 -20 1 100 1 80 0;
	1 10 0 60 -20 1 100 1 80 0;
];
mpc.branch = [
	1 2 0.02 0.06 0.03 130 130 130 0 0 1 -360 360;
	2 5 0.05 0.19 0.02 130 130 130 0 0 0 -360 360;
];
mpc.gencost = [
	2 0 0 3 0.02 2 0;
	2 0 0 3 0.0175 1.75 0;
];
% expect 7: bus 5 has load, and no branch in service leads
