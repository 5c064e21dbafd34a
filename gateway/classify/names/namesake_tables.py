"""Brands, methods, diseases and institutions that bear people's names.

Facts, collected from Wikipedia's lists of companies named after people, eponymous diseases, medical
signs, laws of nature, theorems, tests in statistics, algorithms and name reactions, and from the
register of universities (WHED), November 2026. Left out is whatever people are often called too
(Paul Smith, Edward Jones, Peter Hahn): restricted wins a doubt. Folded: lower case, no accents.
"""

from __future__ import annotations


def _phrases(table: str) -> tuple[str, ...]:
    return tuple(" ".join(phrase.split()) for phrase in table.split(",") if phrase.strip())


BRANDS = _phrases(
    """
    abercrombie & fitch, aston martin, baker hughes, baker mckenzie, baskin robbins, bausch & lomb,
    becton dickinson, ben & jerry, black & decker, boehringer ingelheim, booz allen, booz allen
    hamilton, briggs & stratton, bristol myers squibb, bruno magli, calvin klein, carl walther, carl
    zeiss, carolina herrera, charles schwab, christian dior, christian louboutin, clifford chance,
    coco chanel, cooper standard, cooper tire, cushman & wakefield, dassault systemes, david yurman,
    dolce & gabbana, donna karan, dow jones, dr martens, dr oetker, dun & bradstreet, duncan hines,
    eddie bauer, elizabeth arden, endress & hauser, ermenegildo zegna, ernst & young, estee lauder,
    ethan allen, fisher & paykel, fisher price, fortnum & mason, fred olsen, freddie mac, gianni
    versace, giorgio armani, giuseppe zanotti, goldman sachs, gottlieb daimler, guy laroche, harley
    davidson, harman kardon, harry winston, heckler & koch, helena rubinstein, helly hansen, henri
    lloyd, hewlett packard, hugo boss, hunter douglas, husqvarna viking, issey miyake, jack daniel,
    jack wolfskin, jean paul gaultier, jim beam, jimmy choo, jo malone, john deere, john hancock,
    john lewis partnership, john wiley, johnnie walker, johnson & johnson, johnson controls, johnson
    matthey,
    jones lang lasalle, karl lagerfeld, kate spade, kawasaki, kenneth cole, kohlberg kravis, kraft
    heinz, lane bryant, laura ashley, laura biagiotti, laurent perrier, lazard freres, lea &
    perrins, leroy merlin, levi strauss, lloyd banking, lockheed martin, louis vuitton, mack trucks,
    marc jacobs, marks & spencer, marsh mclennan, martin logan, martin marietta, mary kay, massey
    ferguson, max factor, max mara, mercedes benz, merck sharp & dohme, merrill lynch, michael kors,
    moet & chandon, moet hennessy, morgan stanley, mr coffee, mrs fields, neiman marcus, nina ricci,
    northrop grumman, orville redenbacher, oscar de la renta, oscar mayer, otto bock, papa john,
    patek philippe, perkin elmer, perkins elmer, peter kaiser, philip morris, philips saeco, piper
    sandler, pratt & whitney, pricewaterhouse coopers, procter & gamble, ralph lauren, ray ban, reed
    elsevier, relais & chateaux, robert bosch, robert half, robert mondavi, robert walters, roger &
    gallet, rohde & schwarz, rolf benz, rolls royce, russell stover, saks fifth, salvatore
    ferragamo, sam adams, samuel adams, sara lee, sherwin williams, smith & nephew, smith & wesson,
    sonia rykiel, standard & poor, standard chartered, stanley black & decker, stella mccartney,
    steve madden, sturm ruger, t rowe price, taylor wimpey, ted baker, thomas keller cookware,
    thomas sabo, thomson reuters, tiffany & co, tim hortons, tommy bahama, tommy hilfiger, tory
    burch, trader joe, valentino garavani, van cleef & arpels, van heusen, vera bradley, vera wang,
    victoria's secret, villeroy & boch, vivienne westwood, walt disney, warner bros, wells fargo,
    wilhelm sonor, willis towers watson, winn dixie, yves rocher, yves saint laurent, zadig &
    voltaire
    """
)
METHODS = _phrases(
    """
    alzheimer, anderson darling, asperger, augmented dickey fuller, babinski, baeyer villiger,
    banach tarski, basedow, bayes, bechterew, beckwith wiedemann, beer lambert, bellman ford,
    benjamini hochberg, black scholes, bland altman, bonferroni, bose einstein, box cox, box
    jenkins, bravais lattice, breusch pagan, brown sequard, budd chiari, cauchy riemann, cauchy
    schwarz, chapman enskog, charcot marie tooth, chi square, church turing, clausius clapeyron,
    clopper pearson, cobb douglas, cochran mantel haenszel, cooley tukey, crank nicolson,
    creutzfeldt jakob, crigler najjar, crohn, cronbach, dandy walker, dickey fuller, diels alder,
    diffie hellman, dijkstra, dorfman, douglas peucker, duchenne, dunning kruger, dupuytren, durbin
    watson, ebbinghaus, edmonds karp, ehlers danlos, einstein podolsky rosen, eisenmenger, epstein
    barr, erdos renyi, euler lagrange, euler mascheroni, fabry perot, fermi dirac, fibonacci,
    fischer tropsch, floyd warshall, ford fulkerson, friedel crafts, galton watson, gauss jordan,
    gauss markov, gauss newton, gauss seidel, gilles de la tourette, godel, gram schmidt, grignard,
    guillain barre, haber bosch, hagen poiseuille, hamilton jacobi, hardy weinberg, heimlich,
    heisenberg, henderson hasselbalch, henoch schonlein, hodgkin, hodgkin huxley, holm bonferroni,
    hosmer lemeshow, jarque bera, kaplan meier, karush kuhn tucker, kirchhoff, kjeldahl,
    klinefelter, knuth morris pratt, kolmogorov smirnov, korsakoff, kruskal wallis, kullback
    leibler, lambert beer, langerhans, laplace, le chatelier, lennard jones, levenberg marquardt,
    likert, lineweaver burk, ljung box, lotka volterra, mann whitney, mantel haenszel, marfan,
    markov, maxwell boltzmann, may grunwald, may grunwald giemsa, meniere, metropolis hastings,
    michaelis menten, michelson morley, miller rabin, monte carlo, munchausen, myers briggs, navier
    stokes, needleman wunsch, nelder mead, newton raphson, neyman pearson, niemann pick, nyquist,
    osgood schlatter, papanicolaou, perron frobenius, peutz jeghers, pohlig hellman, poincare,
    poisson, prader willi, rabin karp, ramer douglas peucker, ramsay hunt, raynaud, reed muller,
    reed solomon, riemann, romberg, rorschach, runge kutta, savitzky golay, schrodinger, shapiro
    wilk, smith waterman, spearman, stein leventhal, stern gerlach, stevens johnson, stone
    weierstrass, sturge weber, sturm liouville, suzuki miyaura, takotsubo, tay sachs, tourette,
    trousseau, tukey, van der waals, von hippel lindau, von willebrand, waterhouse friderichsen,
    weber fechner, wernicke korsakoff, wilcoxon, wolf hirschhorn, wolff parkinson white, young
    laplace, ziehl neelsen, zollinger ellison
    """
)
"""By their surnames alone; those of two and more are hardly anybody's name."""
INSTITUTIONS = _phrases(
    """
    adam mickiewicz, adolfo suarez, albert einstein, alexander von humboldt, alfred wegener, anne
    frank, antoni van leeuwenhoek, bill & melinda gates, brigham and women, bristol myers, carl von
    ossietzky, carlos iii, carnegie mellon, case western, charles de gaulle, claude bernard, dana
    farber, doctors without borders, ebert stiftung, ernst abbe, ernst moritz arndt, franz josef
    strauß, frederic chopin, frederick chopin, friedrich alexander, friedrich ebert, friedrich
    naumann, friedrich schiller, fritz haber, fryderyk chopin, georg august, george bush, george
    mason, george washington, georges pompidou, gregorio maranon, gustave roussy, hans bockler,
    heinrich boll, heinrich heine, heinrich hertz, helmut schmidt, henry ford, herbert hoover,
    howard hughes, isabella stewart gardner, jagiellon, jean monnet, jean moulin, jimmy carter,
    johann wolfgang goethe, johannes gutenberg, johannes kepler, john f kennedy, john innes, john
    paul ii, john radcliffe, john wayne, johns hopkins, julius maximilians, justus liebig, karl
    franzens, konrad adenauer, leonardo da vinci, louis armstrong, louis le grand, louis pasteur,
    ludwig boltzmann, ludwig maximilians, luigi bocconi, marie curie, martin luther, massachusetts
    general, max delbruck, max planck, melinda gates, nicolaus copernicus, otto von guericke, paul
    ehrlich, paul sabatier, paul scherrer, paul verlaine, philipps, pierre et marie curie, pompeu
    fabra, ramon y cajal, rene descartes, rey juan carlos, robert bosch, robert koch, robert wood
    johnson, rosa luxemburg, ruprecht karls, salk, scripps, sloan kettering, solomon r guggenheim,
    stefan batory, tadeusz kosciuszko, thomas jefferson, victor babes, wallraf richartz, weizmann,
    wellcome, william & mary, willy brandt, woods hole
    """
)
