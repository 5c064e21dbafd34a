# ruff: noqa: E501 - a document's line is a line; letters of other languages are meant
"""Business documents in which nobody is named and nothing is a person's number.

Their companies, articles and orders are made up. Each holds numbers of the forms that such documents
have: articles by GS1 (GTIN, SSCC, GLN), goods by the Combined Nomenclature and PKWiU, norms (PN-EN,
DIN, ISO, ASTM), containers by ISO 6346, customs declarations by their movement reference number,
lots, orders, invoices, drawings, quantities, prices and dates.
"""

DOCUMENTS = (
    # Polish
    """Faktura VAT nr FV/2024/11/00482
Data wystawienia: 14.11.2024   Termin płatności: 28.11.2024
Lp. Nazwa towaru            Indeks        Ilość  J.m.  Cena netto   VAT  Wartość
1   Śruba M8x40 ocynk       5901234123457 1 200  szt.  0,42         23%  504,00
2   Podkładka sprężysta M8  5907512340018 2 500  szt.  0,08         23%  200,00
3   Nakrętka samohamowna    5900000123456 1 200  szt.  0,19         23%  228,00
Razem do zapłaty: 1 146,36 zł (słownie: tysiąc sto czterdzieści sześć złotych 36/100)""",
    """Zamówienie 4500128834 z dnia 03.10.2024
Pozycja 10: blacha S235JR 2,0x1250x2500, PN-EN 10025-2:2019-11, 40 ark.
Pozycja 20: profil zamknięty 60x40x3, PN-EN 10219-1:2007, 120 m
Pozycja 30: pręt fi 12 B500SP, PN-H-93220:2018-02, 2,5 t
Dostawa do 25.10.2024, magazyn M3, rampa 12.""",
    """List przewozowy CMR nr 0048291
Liczba opakowań: 33 palety EUR, SSCC 359012345600001238 do 359012345600001566
Waga brutto: 18 460 kg, objętość 62,4 m3
Numer naczepy wpisać przy załadunku. Plomba 0094412. Temperatura +2/+6 C.""",
    """Specyfikacja techniczna: zawór kulowy DN50 PN16, norma PN-EN 12266-1, atest PZH.
Nr katalogowy 3300-050-16, kod producenta 7012 0450 0016, ciśnienie próbne 24 bar.
Moment obrotowy 18 Nm, masa 3,20 kg, gwarancja 24 miesiące, par. 4 ust. 2 OWS.""",
    """Wydanie zewnętrzne WZ 1183/10/2024
Kod towaru  Nazwa                      Partia        Ilość
100234567   Farba lateksowa biała 10L  L24-0918-02   48
100234574   Grunt uniwersalny 5L       L24-0902-11   96
100234581   Taśma malarska 48mm        240811/3      240
Wydał: magazyn główny. Odebrał: przewoźnik.""",
    """Protokół reklamacji RK-2024-0917. Produkt: sprężarka SK-250, nr seryjny 20240311-00482.
Przebieg 1 204 h. Usterka: wyciek oleju przy 8,5 bar. Decyzja: wymiana uszczelki, art. 556 KC.""",
    """Zestawienie sprzedaży, kwartał III 2024
Grupa 01  123 456,78  124 980,10  131 002,45
Grupa 02   98 120,00   97 450,30  101 233,80
Grupa 03   12 450 000 szt.  PKWiU 25.94.11.0  CN 7318 15 88""",
    """Raport kontroli jakości 2024/44: próbka 00318, wymiar A 12,004 mm, B 45,112 mm, C 7,998 mm.
Tolerancja h7 wg PN-EN ISO 286-2:2010. Wynik: zgodny. Przyrząd nr 884-120-77, wzorcowanie 06.2025.""",
    """Oferta nr OF/1220/24: licencja roczna 150 stanowisk, 3 lata wsparcia.
Cena jednostkowa 412,00 EUR, rabat 12,5 %, ważna do 31.12.2024. Warunki: par. 7 regulaminu, rozdział 3.""",
    """Harmonogram produkcji, tydzień 47: linia 2, zlecenie 600123987, 14 500 szt., zmiana 1-3.
Linia 4, zlecenie 600124002, 8 200 szt., przezbrojenie 06:30-07:45. Postój 22.11.""",
    # English
    """INVOICE INV-2024-004817
PO 4500219983 / Delivery note 80044712
Line  Part no.        Description               Qty   Unit    Amount
10    742-1188-03     Bearing housing, cast     12    48.20   578.40
20    0007-4412-900   Seal kit NBR 70 Shore     40    6.15    246.00
Subtotal 824.40   Freight 35.00   Total USD 859.40   Net 30""",
    """PACKING LIST  Container MSKU 482913 7, seal ML-EU0048291
Cartons 1-48: GTIN 00614141123452, lot 24K117, gross 612.5 kg
Cartons 49-96: GTIN 00614141123469, lot 24K118, gross 598.0 kg
HS 8482.10.90, origin Vietnam, measurement 11.2 cbm""",
    """Shipping notice 0180044712: 3 pallets, SSCC (00) 1 0614141 1234567897, carrier reference 7729 4410 2281.
Estimated arrival 2024-11-29 14:30, dock 7, reference 1Z999AA10123456784.""",
    """Bill of materials, drawing 40-11872 rev C
Item 1  M6x20 ISO 4762-8.8      qty 24
Item 2  Gasket 112x84x2 EPDM    qty 6
Item 3  Plate 6082-T6 per ASTM B209-14, 300 x 450 x 12, qty 2
Torque 9.5 N m, surface Ra 1.6, general tolerances ISO 2768-mK""",
    """Change request CR-10442: raise the limit in section 4.2.1.3 from 10.2.33.4 to 10.2.34.0,
firmware 2024.11.0442, ticket INC0048213, window Sat 02:00-04:30. Rollback plan RB-7, approval board 14.""",
    """Calibration certificate 24-118820. Instrument: pressure gauge PG-400, asset 00411-22, range 0-400 bar.
Readings 100.02 200.05 300.01 399.97. Uncertainty 0.05 %, ISO/IEC 17025:2017.""",
    """Stock list, warehouse 3. SKU 100482913 qty 1,204; SKU 100482914 qty 88; SKU 100482921 qty 17,500.
Reorder point 500, lead time 21 days, bin A-12-044. Count date 11/14/2024.""",
    """Quarterly report: revenue 12 448 120 EUR, EBITDA 1 204 331, capex 884 120, headcount 1,482.
Outlook 2025: 13.1 to 13.6 million. See note 14.2 and table 7-3 on page 112.""",
    # German
    """Rechnung Nr. 2024-118824 vom 12.11.2024
Bestellung 4500-88211, Lieferschein 80/442/11872
Pos 1  Artikel 4711-0815-22  Sechskantschraube DIN 933 M10x50   200 Stk   0,38   76,00
Pos 2  Artikel 4711-0815-37  Scheibe DIN 125 A10,5              500 Stk   0,05   25,00
Summe netto 101,00 EUR zzgl. 19 % USt 19,19 EUR. Zahlbar innerhalb 14 Tagen.""",
    """Lieferschein 80044712: 12 Paletten, EAN 4006381333931, Charge 24-K-1187, MHD 11/2026.
Bruttogewicht 4.812,5 kg, Abruf 17, Rampe 4, Zeitfenster 08:00-10:30.""",
    """Prüfprotokoll nach DIN VDE 0701-0702: Gerät 00482, Schutzklasse I, Rsl 0,12 Ohm, Riso 312 MOhm,
Ableitstrom 0,04 mA. Nächste Prüfung 11/2025. Prüfmittel 7731-0042.""",
    """Technische Daten: Pumpe NK 32-160/177, Förderhöhe 32 m, 22 m3/h, 2900 1/min, IE3, IP55,
Materialnummer 96587182, Zeichnung 10-44-1182, Werkstoff EN-GJL-250 nach DIN EN 1561.""",
    """Stückliste 100-22871 Index D: 4 x Lager 6205-2RS C3, 2 x Wellendichtring 25x47x7, 1 x Passfeder DIN 6885 A 8x7x30.
Norm: DIN ISO 2768-1 mittel, Absatz 4.3, Tabelle 2.""",
    """Ausfuhranmeldung MRN 24DE586600123456A7, Warennummer 84821010, Statistischer Wert 12.448 EUR,
Rohmasse 612 kg, Ursprungsland DE, Beförderer-Referenz 0044-8821.""",
    # French, Spanish, Italian, Portuguese, Dutch, Czech
    """Facture n° F2024-11-0482 du 14/11/2024, bon de commande 4500 2198 83
Réf. 30 1187 004  Vanne papillon DN80 PN16   4   118,20   472,80
Réf. 30 1187 011  Bride plate NF EN 1092-1   8    22,40   179,20
Total HT 652,00 EUR, TVA 20 % 130,40, net à payer 782,40 EUR, échéance 30 jours""",
    """Bordereau de livraison BL 0080 4471 : 18 colis, lot 24K117, DLC 03/2026, code article 3560070976478.
Poids brut 212,4 kg, quai 6, créneau 14 h 30. Température dirigée.""",
    """Albarán 2024/004812, pedido 4500219983. Artículo 8410076472144, 24 cajas, lote L24318, caducidad 11/2026.
Partida arancelaria 2204.21.06, peso bruto 318,2 kg, norma UNE-EN ISO 9001:2015 apartado 8.4.2.""",
    """Documento di trasporto DDT 1182 del 12/11/2024, ordine 45-00219983, colli 12, peso lordo 184,6 kg.
Articolo 8001090123459 quantità 240, lotto 24318/B, norma UNI EN 10204 tipo 3.1.""",
    """Guia de remessa GR 2024/1182, encomenda 4500219983, artigo 5601234567892, 60 unidades, lote 24-318.
Peso bruto 84,2 kg, cais 3, NP EN 206, ponto 5.4.3.""",
    """Pakbon 80044712, order 4500219983: 6 pallets, artikel 8712345678906, partij 24K117, THT 11-2026.
Bruto 1.812 kg, NEN-EN 1090-2 paragraaf 7.5, tekening 40-11872.""",
    """Dodací list 2024001182 k objednávce 4500219983: 120 ks, EAN 8594001234561, šarže 24/318,
hmotnost 212,5 kg, norma ČSN EN 10025-2, článek 7.3.1, položka 10 až 40.""",
    """Comanda 4500219983, aviz 0044812: articol 5941234567899, 300 buc, lot 24318, SR EN 13501-1, preț 12,40 lei,
total 3.720,00 lei, termen 30 zile.""",
)
