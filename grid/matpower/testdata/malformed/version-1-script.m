% a script
baseMVA = 100;
bus = [
1 3 0 0 0 0 1 1 0 345 1 1.1 0.9;
];
% expect 3: version 1 case file
