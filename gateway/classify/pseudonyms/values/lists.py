"""Invented names, in no dictionary: where one stands in an answer, it stands for its original.

None begins, ends or contains another, in any case of letters, and none is a word of the languages
that the gateway knows; a model that writes of winter must not have it turned into Mrs Keller.
"""

from __future__ import annotations

FEMININE = tuple(
    (  # noqa: SIM905 - as a list, a line for each
        "Aurelind Belinora Calvessa Dorianka Elspetra Fiorenza Galdrina Isolwen Jorvanna "
        "Lucandra Maridess Quintessa Rosavere Thessamyn Ulrikana Xanthora Yolandis Zephrina "
        "Delphora Florimel Gwendrin Jessamyn Klarinde Norvalda Tancreda Vivendra Winifrek"
    ).split()
)
MASCULINE = tuple(
    (  # noqa: SIM905 - as a list, a line for each
        "Henrivo Kestrion Nerissko Orlandro Petronik Silvanko Valdemir Wilhemar Ambrosko "
        "Bertoldrin Cassimir Evandrin Hestiano Ingramar Leopoldriss Melisandor Odalinko "
        "Philomar Ragnaldo Serafinko Ursilvan"
    ).split()
)
GIVEN = FEMININE + MASCULINE
FAMILY = tuple(
    (  # noqa: SIM905 - as a list, a line for each
        "Abendrothen Brisolden Carrowmere Dunhalvern Ellingvard Fenwhistle Grimaldor "
        "Harrowgast Ivermoorens Jastrebov Kellwinder Lindqvaard Morgenstahl Northavel "
        "Oppenvelde Pellingray Quarrelmond Rotherwyck Stellingham Tarnowfeld Underhaugen "
        "Vandermoorn Westerlingk Yarrowtree Zellenbrook Ashgrovane Blackwendel Copperthorn "
        "Drachenmeer Eastermontz Farrendael Goldenhaupt Hollenbergk Irvingstone Juniperholt "
        "Kaltenmark Larkendale Mossgraven Nettlefoldt Osterwegen Pinkerwald Quintavellen "
        "Ravenscroftz Silverthorp Thornquist Umberfield Vossenkamp Whitlockens"
    ).split()
)
SYLLABLES = (
    (  # noqa: SIM905 - as a list
        "Bar Cor Dal Fen Gor Hal Jor Kel Lun Mor Nor Pel Quor Ral Sel Tor Ul Var Wel Yor Zel"
    ).split(),
    (  # noqa: SIM905 - as a list
        "ab and ed eg el en ib im ol om or ost ub und ur"
    ).split(),
    (  # noqa: SIM905 - as a list
        "bek dorn fald grav heim kov lund mark nath quist rath sven tolm veld wick zan"
    ).split(),
)
"""Of names that are made where a call has more than the lists."""
MAILBOXES = tuple(
    (  # noqa: SIM905 - as a list, a line for each
        "alpenglut birkwald cedarpost dovetrail emberlake finchgate glenhaven heronpost "
        "inkwater junobrook kiteharbor larchpost millhaven nightfern opalcreek pinepost "
        "quillhaven reedmarsh slatepost tidegarden umbrapost valeharbor willowpost yewgarden"
    ).split()
)
STREETS = tuple(
    (  # noqa: SIM905 - as a list, a line for each
        "Amberwick Brindlecote Cinderfell Dapplemoor Eiderwald Foxhallow Gorsehaven Hazelmeer "
        "Ironbridgen Jackdawson Kingsferry Lanternby Mistlethwaite Nuthatchen Otterbourne "
        "Plumstede Rookhaven Saltmarshe Thistledon Wrenbourne"
    ).split()
)
PARTICLES = frozenset(
    (  # noqa: SIM905 - as a list, a line for each
        "al bin da das de del della den der di do dos du el la le los ten ter van vom von y "
        "zu zum zur dr dr. mr mr. mrs mrs. ms ms. prof prof. herr frau sr sr. sra sra. mme m. "
        "jr jr. ii iii"
    ).split()
)
"""What stands in a name and identifies nobody; it stays."""
